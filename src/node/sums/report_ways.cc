#include "node/sums/report_ways.h"

#include <utility>

#include "node/sums/sum_messages.h"

namespace square {

bool hasten_report(OutgoingLink& link, const StreamKey& key, const Frame& report) {
  const auto stream = link.find(key);
  if (!stream) return false;
  const Result<SumReport> whole = decode_report(report.payload);
  if (!whole.is_ok() || !(whole->may_have_lost || stream->lacks_credit())) return false;
  SumReport copy = *whole;
  copy.number = 0;
  copy.position = 0;
  link.send_ahead({report.header, encode_report(copy)});
  return copy == *whole;
}

void pass_report(OutgoingLink& link, const StreamKey& key, Frame report) {
  if (!hasten_report(link, key, report)) link.enqueue(key, std::move(report), nullptr);
}

}  // namespace square
