"""Numbers of models, layouts and releases, without a host: plain values in, plain values out."""
