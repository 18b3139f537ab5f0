#include "coding/codes/payload.h"

#include <cstring>
#include <memory>

#include "base/check.h"

namespace square {

Status check_block_of(const Generation& generation, const CodedBlock& block) {
  SQUARE_RETURN_IF_ERROR(check_coded_block(block));
  if (block.generation == generation) return Status::ok();
  return invalid_argument("a block of " + to_string(block.generation) + " came where those of " +
                          to_string(generation) + " are");
}

NewPayload::NewPayload(std::size_t size_bytes) {
  std::shared_ptr<std::byte[]> space = std::make_shared_for_overwrite<std::byte[]>(size_bytes);
  data = space.get();
  buffer = Buffer(std::move(space), data, size_bytes);
}

Buffer whole_payload(const CodedBlock& block) {
  const std::uint64_t size_bytes = block.generation.block_bytes();
  const std::size_t has = block.payload.size_bytes();
  if (block.payload.slices().size() == 1 && has == size_bytes) return block.payload;
  NewPayload whole(size_bytes);
  block.payload.copy_to(whole.data);
  std::memset(whole.data + has, 0, size_bytes - has);
  return whole.buffer;
}

const std::byte* first_byte(const Buffer& whole) {
  return whole.slices().empty() ? nullptr : whole.slices().front().data;
}

}  // namespace square
