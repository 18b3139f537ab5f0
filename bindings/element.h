// What a buffer's elements are, and what Python calls an operation on them.
#pragma once

#include <optional>
#include <string>

#include "bindings.h"
#include "square/reduction.h"

namespace square::python {

// The type of a buffer's elements: from its format, as the struct module has it, or `dtype`, the
// name of what the bytes stand for: buffers know no bfloat16. Raises InvalidArgumentError for a
// format that cannot be added, an unknown name, and a name of another size than the buffer's
// elements, unless those are single bytes.
ElementType element_type(const py::buffer_info& view, const std::optional<std::string>& dtype);
// The same, and bytes where they are none that can be added and `dtype` does not say otherwise.
ElementType known_element_type(const py::buffer_info& view,
                               const std::optional<std::string>& dtype = std::nullopt);

// Of the input's elements. Raises InvalidArgumentError where they do not go together.
Reduction reduction_of(const py::buffer_info& input, const std::string& op,
                       const std::optional<std::string>& dtype);

}  // namespace square::python
