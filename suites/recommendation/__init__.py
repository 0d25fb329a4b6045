"""Tables of a recommendation network: random access to more memory than any cache holds.

Every number in them is whole, so that sums have the same bits in any order, on every device.
"""
