#include "node/sums/partial_sum.h"

#include <memory>

#include "coding/sum.h"

namespace square {

Buffer partial_sum(const std::vector<const std::byte*>& inputs, std::size_t offset_bytes,
                   std::size_t size_bytes, const std::vector<SumPart>& parts, const Reduction& reduction) {
  std::shared_ptr<std::byte[]> sum = std::make_shared_for_overwrite<std::byte[]>(size_bytes);
  std::vector<Operand> operands;
  for (const std::byte* input : inputs) operands.push_back({input + offset_bytes, nullptr});
  for (const SumPart& part : parts) operands.push_back({nullptr, &part.payload});
  if (size_bytes > 0) add({sum.get(), size_bytes}, operands, reduction);
  const std::byte* data = sum.get();
  return {std::move(sum), data, size_bytes};
}

}  // namespace square
