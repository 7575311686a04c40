"""What every room uses: errors, files, YAML and JSON from outside, words."""
