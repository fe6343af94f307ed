"""Order: sorting by digits, ranks, the first few of a row, and where elements are true."""
