"""Places of a tensor's elements in the contiguous one that it is a view of."""

import dataclasses
import math

import numpy


class LayoutError(Exception):
    """A view that a layout cannot express."""


def _merge(atoms):
    """Returns the same places in as few atoms as possible."""
    merged = []
    for extent, stride in atoms:
        if extent == 1:
            continue
        if merged and merged[-1][1] == extent * stride:
            extent *= merged.pop()[0]
        merged.append((extent, stride))
    return tuple(merged)


@dataclasses.dataclass(frozen=True)
class Layout:
    """Every dimension is a product of atoms (extent, stride), the outermost first. An element is at offset
    plus the sum of index times stride over all atoms. So a dimension can be flattened from several that are
    not contiguous, as reshape() of a transposed tensor makes them."""

    dims: tuple  # of tuples of atoms, merged
    offset: int = 0

    @staticmethod
    def contiguous(shape):
        return Layout.strided(shape, [math.prod(shape[at + 1:]) for at in range(len(shape))])

    @staticmethod
    def strided(shape, strides, offset=0):
        return Layout(tuple(_merge([atom]) for atom in zip(shape, strides)), offset)

    @property
    def shape(self):
        return tuple(math.prod(extent for extent, _ in dim) for dim in self.dims)

    @property
    def atoms(self):
        """The atoms of all dimensions, flattened."""
        return _merge(atom for dim in self.dims for atom in dim)

    def reshape(self, shape):
        left = list(self.atoms)
        dims = []
        for wanted in shape:
            dim = []
            while wanted > 1:
                extent, stride = left.pop(0)
                taken = math.gcd(extent, wanted)
                if taken not in (extent, wanted):
                    raise LayoutError(f"{list(self.shape)} as {list(shape)} cuts a dimension")
                if taken < extent:
                    left.insert(0, (extent // taken, stride))
                dim.append((taken, stride * (extent // taken)))
                wanted //= taken
            dims.append(_merge(dim))
        return Layout(tuple(dims), self.offset)

    def permute(self, order):
        return Layout(tuple(self.dims[at] for at in order), self.offset)

    def transpose(self, a, b):
        order = list(range(len(self.dims)))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def slice(self, dim, start, count):
        """Takes `count` neighbours of a dimension."""
        dims, atoms = list(self.dims), self.dims[dim]
        if count == self.shape[dim]:
            return self
        inner = math.prod(extent for extent, _ in atoms[1:])
        if start % inner or count % inner:
            raise LayoutError(f"a part of dimension {dim} that is not contiguous")
        dims[dim] = _merge([(count // inner, atoms[0][1]), *atoms[1:]])
        return Layout(tuple(dims), self.offset + start // inner * atoms[0][1])

    def select(self, dim, index):
        offset = self.offset
        for extent, stride in reversed(self.dims[dim]):
            index, digit = divmod(index, extent)
            offset += digit * stride
        return Layout(self.dims[:dim] + self.dims[dim + 1:], offset)

    def expand(self, shape):
        """Repeats dimensions of extent 1, and adds new ones in front."""
        dims = ((),) * (len(shape) - len(self.dims)) + self.dims
        return Layout(tuple(((wanted, 0),) if not dim and wanted > 1 else dim
                            for dim, wanted in zip(dims, shape)), self.offset)

    def scale(self, numerator, denominator):
        """Converts the layout of rows to rows of another length."""
        if any(stride % denominator for _, stride in self.atoms) or self.offset % denominator:
            raise LayoutError("rows that are cut")
        return Layout(tuple(tuple((extent, stride // denominator * numerator)
                                  for extent, stride in dim) for dim in self.dims),
                      self.offset // denominator * numerator)

    def covers(self, count):
        """Returns True if it has each of `count` elements once, in any order."""
        stride = 1
        for extent, own in sorted(self.atoms, key=lambda atom: atom[1]):
            if own != stride:
                return False
            stride *= extent
        return stride == count

    def in_order(self, count):
        """Returns True if it has `count` elements, each at its own place."""
        return self.covers(count) and len(self.atoms) <= 1

    def indices(self):
        """Returns the place of every element, as an array of the view's shape."""
        places = numpy.full((), self.offset)
        for dim in self.dims:
            for extent, stride in dim:
                places = places[..., None] + numpy.arange(extent) * stride
        return places.reshape(self.shape)
