"""Pure models of what hardware could do: no devices, no clocks, no files."""
