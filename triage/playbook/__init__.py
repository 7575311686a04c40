"""Playbooks: YAML files that string the steps of the product together."""
