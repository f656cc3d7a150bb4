"""The commands, by what they are about; `cli` gives each its name."""
