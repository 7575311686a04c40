"""What kind of fault it is, where no rule knows it: by its place, its class and its words."""
