"""Python packages for variants: requirements, pip's answers, builders, and audits of what was installed."""
