"""What strategies send instead of arrays: sparse blocks, cosine transforms, sketches, random bits. Knows no run."""
