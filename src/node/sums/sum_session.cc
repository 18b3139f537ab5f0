#include "node/sums/sum_session.h"

#include <algorithm>

#include "node/sums/sum_messages.h"

namespace square {

Frame done_answer(const FrameHeader& question, std::uint32_t incarnation) {
  SumRequest request;
  request.done = true;
  Frame frame{question, encode_request(request)};
  frame.header.type = FrameType::kRequest;
  frame.header.incarnation = incarnation;
  return frame;
}

std::size_t parent_index(const Arrival& arrival) {
  const auto& parents = arrival.stream->parents;
  return static_cast<std::size_t>(std::ranges::find(parents, arrival.from) - parents.begin());
}

}  // namespace square
