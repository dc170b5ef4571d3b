"""A line search for the strong Wolfe conditions (Nocedal and Wright 2006, algorithms 3.5 and 3.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..tensor import Tensor

ARMIJO, CURVATURE = 1e-4, 0.9
SMALLEST = 1e-9
"""A bracket whose end points differ by less ends the search."""


class Point(NamedTuple):
    """A place on the line: how far, the loss, the gradient and the slope along the line there."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    t: float,
    d: Tensor,
    loss: float,
    gradient: Tensor,
    slope: float,
    budget: int = 25,
) -> tuple[float, Tensor, float, int]:
    """Search along `d` from a point of this `loss`, `gradient` and `slope`, first at `t`.

    `evaluate(t)` gives loss and gradient at t. Returns loss, gradient and t of the best point, and the number of
    evaluations, about `budget` at most.
    """
    search = Search(evaluate, d, Point(0.0, loss, gradient, slope), budget)
    low, high, done = search.bracket(t)
    best = low if done else search.zoom(low, high)
    return best.loss, best.gradient, best.t, search.evaluations


class Search:
    """One search: the line, its start, and the count of evaluations."""

    def __init__(
        self, evaluate: Callable[[float], tuple[float, Tensor]], d: Tensor, start: Point, budget: int
    ) -> None:
        self.evaluate, self.d, self.start, self.budget = evaluate, d, start, budget
        self.evaluations = self.iterations = 0

    def at(self, t: float) -> Point:
        loss, gradient = self.evaluate(t)
        self.evaluations += 1
        return Point(t, loss, gradient, float(gradient.dot(self.d)))

    def too_high(self, point: Point) -> bool:
        """Whether the loss has not fallen enough (Armijo's condition)."""
        return point.loss > self.start.loss + ARMIJO * point.t * self.start.slope

    def flat(self, point: Point) -> bool:
        """Whether the slope is small enough (the curvature condition)."""
        return abs(point.slope) <= -CURVATURE * self.start.slope

    def bracket(self, t: float) -> tuple[Point, Point, bool]:
        """Two points with an acceptable one between, in no order; or an acceptable one twice, and True."""
        before, point = self.start, self.at(t)
        while self.iterations < self.budget:
            if self.too_high(point) or (self.iterations > 1 and point.loss >= before.loss):
                return before, point, False
            if self.flat(point):
                return point, point, True
            if point.slope >= 0:
                return before, point, False
            bounds = (point.t + 0.01 * (point.t - before.t), point.t * 10)
            before, point = point, self.at(cubic_minimum(before, point, bounds))
            self.iterations += 1
        return self.start, point, False

    def zoom(self, first: Point, second: Point) -> Point:
        """Shrink the bracket until a point in it is acceptable; the lower end of the last bracket."""
        ends, stuck = [first, second], False
        low = 0 if first.loss <= second.loss else 1
        width = float(self.d.abs().max())
        while self.iterations < self.budget and abs(ends[1].t - ends[0].t) * width >= SMALLEST:
            t, stuck = inside(cubic_minimum(ends[0], ends[1]), ends, stuck)
            point = self.at(t)
            self.iterations += 1
            if self.too_high(point) or point.loss >= ends[low].loss:
                ends[1 - low] = point
                low = 0 if ends[0].loss <= ends[1].loss else 1
                continue
            done = self.flat(point)
            if not done and point.slope * (ends[1 - low].t - ends[low].t) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
            if done:
                break
        return ends[low]


def inside(t: float, ends: list[Point], stuck: bool) -> tuple[float, bool]:
    """A trial point kept off the ends of the bracket, where it would make no progress; and whether it was near one."""
    left, right = sorted(end.t for end in ends)
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if not stuck and left < t < right:
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through both points, with their slopes, is lowest; kept within `bounds`, or between them."""
    if a.t > b.t:
        a, b = b, a
    low, high = bounds or (a.t, b.t)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t) if a.t != b.t else math.nan
    square = d1 * d1 - a.slope * b.slope
    d2 = math.sqrt(square) if square >= 0 else math.nan
    bend = b.slope - a.slope + 2 * d2
    if math.isnan(bend) or bend == 0:
        return (low + high) / 2
    t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / bend)
    return min(max(t, low), high)
