"""Why a line of an engine's source failed: its conditions with this run's values, the settings behind it."""
