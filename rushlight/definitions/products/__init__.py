"""Matrix products and what is made of them: sums of products, grouped and scaled ones, distances."""
