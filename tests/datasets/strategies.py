"""Hypothesis strategies for datasets of every kind."""

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import xarray as xr

from factorgraph.datasets.schema import BY_ROW, FACTS, KINDS, Field, Kind

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


def _values(draw: st.DrawFn, field: Field, shape: tuple[int, ...]) -> np.ndarray:
    if field.unit == "text":
        return np.array(draw(arrays.arrays(object, shape, elements=WORDS)).tolist(), dtype=str)
    if field.whole:
        return draw(arrays.arrays(np.int64, shape, elements=st.integers(1, 2**40)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    numbers = st.floats(2.0**-100, 2.0**100, width=32, allow_subnormal=False)
    values = draw(arrays.arrays(dtype, shape, elements=numbers))
    if field.measured and draw(st.booleans()) and values.size > 1:
        values.flat[0] = np.nan
    return values


@st.composite
def datasets(draw: st.DrawFn, kind: Kind | None = None) -> xr.Dataset:
    """Valid datasets: rows, or GPUs by rows, with some of the optional fields, facts said once or along rows."""
    kind = kind or draw(st.sampled_from(list(KINDS.values())))
    sizes = draw(st.sampled_from([{"row": 1}, {"row": 3}, {"sku": 2, "row": 2}]))
    data, coords, attrs = {}, {}, {"kind": kind.name, "title": draw(WORDS) + "."}
    for field in kind.fields:
        if not (field.required or field.name in kind.one_of or draw(st.booleans())):
            continue
        dims = tuple(sizes) if field.measured else ("row",)
        values = _values(draw, field, tuple(sizes[dim] for dim in dims))
        unit = {} if field.unit == "text" else {"units": "see si_unit" if field.unit == BY_ROW else field.unit}
        (data if field.measured else coords)[field.name] = (dims, values, unit)
    for fact in FACTS:
        words = st.sampled_from(fact.choices) if fact.choices else WORDS.filter(str.strip)
        if fact.name == "sku" and "sku" in sizes:
            coords["sku"] = ["l4", "h100-sxm"]
        elif draw(st.booleans()):
            coords[fact.name] = ("row", np.array([draw(words) for _ in range(sizes["row"])], dtype=str))
        else:
            attrs[fact.name] = draw(words)
    return xr.Dataset(data, coords, attrs)
