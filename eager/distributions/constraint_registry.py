"""Transforms onto the sets that constraints describe: `biject_to` one to one, `transform_to` for optimisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A function from constraints to transforms onto them, by the constraint's type."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], transforms.Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], transforms.Transform] | None = None) -> Any:
        """Enter the factory for a type of constraint; also a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> transforms.Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def bounded(constraint: Any) -> transforms.Transform:
    """A sigmoid from the lower to the upper bound."""
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


def above(constraint: Any) -> transforms.Transform:
    if isinstance(constraint.lower_bound, int | float) and constraint.lower_bound == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def below(constraint: Any) -> transforms.Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def fill(registry: ConstraintRegistry) -> None:
    """Enter what both registries share."""
    registry.register(constraints.real, lambda c: transforms.identity_transform)
    registry.register(constraints.greater_than, above)
    registry.register(constraints.greater_than_eq, above)
    registry.register(constraints.less_than, below)
    registry.register(constraints.interval, bounded)
    registry.register(constraints.half_open_interval, bounded)
    registry.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
    registry.register(constraints.positive_definite, lambda c: transforms.PositiveDefiniteTransform())
    registry.register(constraints.positive_semidefinite, lambda c: transforms.PositiveDefiniteTransform())
    registry.register(constraints.corr_cholesky, lambda c: transforms.CorrCholeskyTransform())

    def independent(c: Any) -> transforms.Transform:
        return transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims)

    def cat(c: Any) -> transforms.Transform:
        return transforms.CatTransform(list(map(registry, c.cseq)), c.dim, c.lengths)

    def stack(c: Any) -> transforms.Transform:
        return transforms.StackTransform(list(map(registry, c.cseq)), c.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


fill(biject_to)
fill(transform_to)
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
