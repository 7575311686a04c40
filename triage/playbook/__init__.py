"""YAML playbooks that string the steps together."""
