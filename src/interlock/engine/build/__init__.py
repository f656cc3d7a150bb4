"""Images of variants: their base, context, build, proof, contract, and the record of how they were built."""
