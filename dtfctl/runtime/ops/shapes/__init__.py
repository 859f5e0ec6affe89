"""Static shape functions by op family, imported when first needed (framework.registries)."""
