"""A log as people ask to see it: timelines, selected records, one file a rank."""
