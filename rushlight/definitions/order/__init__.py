"""Order: sorting, ranking, distinct elements, searching and counting, running sums and extremes."""
