#include "buffers.h"

#include <numeric>

namespace square::python {

std::shared_ptr<py::buffer_info> request(const Data& data, bool writable) {
  auto view = view_of(data, writable);
  if (view->size == 0) return view;
  py::ssize_t stride = view->itemsize;
  for (auto i = static_cast<std::size_t>(view->ndim); i-- > 0; stride *= view->shape[i]) {
    if (view->shape[i] > 1 && view->strides[i] != stride) {
      raise(invalid_argument("the buffer must be contiguous, in C order"));
    }
  }
  return view;
}

std::span<std::byte> bytes_of(const py::buffer_info& view) {
  return {static_cast<std::byte*>(view.ptr), static_cast<std::size_t>(view.size * view.itemsize)};
}

namespace {

std::vector<std::size_t> sizes_of(std::span<const std::byte> bytes, std::size_t ranks, const Sizes& sizes) {
  if (!sizes) {
    if (bytes.size() % ranks != 0) {
      raise(invalid_argument(std::to_string(bytes.size()) + " bytes cannot be cut evenly for " +
                             std::to_string(ranks) + " ranks: give sizes, or a list of buffers"));
    }
    return std::vector<std::size_t>(ranks, bytes.size() / ranks);
  }
  std::size_t left = bytes.size();
  for (const std::size_t size : *sizes) {
    if (size > left) raise(invalid_argument("the sizes are more than the bytes of the buffer"));
    left -= size;
  }
  if (left != 0) raise(invalid_argument("the sizes are less than the bytes of the buffer"));
  return {sizes->begin(), sizes->end()};
}

}  // namespace

std::vector<std::span<std::byte>> cut(const RankBuffers& data, std::size_t ranks, const Sizes& sizes,
                                      bool writable, Buffers& held) {
  std::vector<std::span<std::byte>> parts;
  if (const auto* several = std::get_if<std::vector<Data>>(&data)) {
    if (sizes) raise(invalid_argument("sizes are for one buffer: a list has one for every rank"));
    for (const Data& one : *several) {
      held.push_back(request(one, writable));
      parts.push_back(bytes_of(*held.back()));
    }
    return parts;
  }
  held.push_back(request(std::get<Data>(data), writable));
  std::span<std::byte> rest = bytes_of(*held.back());
  for (const std::size_t size : sizes_of(rest, ranks, sizes)) {
    parts.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  return parts;
}

std::vector<std::span<const std::byte>> read_only(const std::vector<std::span<std::byte>>& parts) {
  return {parts.begin(), parts.end()};
}

}  // namespace square::python
