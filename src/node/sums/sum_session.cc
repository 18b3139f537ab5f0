#include "node/sums/sum_session.h"

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

}  // namespace square
