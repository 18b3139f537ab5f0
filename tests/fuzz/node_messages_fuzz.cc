// What nodes tell one another in the payloads of frames: acknowledgements, aborts, requests and reports of
// sums, descriptions of calls. Whatever the bytes, an answer or an error, and what is taken says the same
// when it is written again. libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/node_messages.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "node/messages/answers.h"
#include "node/messages/call_description.h"
#include "node/sums/sum_messages.h"

namespace {

using namespace square;

void require(bool holds) {
  if (!holds) std::abort();
}

void parse_acknowledgement(const Buffer& bytes) {
  (void)is_routine(bytes);
  const auto read = decode_acknowledgement(bytes);
  if (!read.is_ok()) return require(!is_routine(bytes));
  const auto again = decode_acknowledgement(encode_acknowledgement(*read));
  require(again.is_ok() && again->destination == read->destination && again->done == read->done &&
          again->accepting == read->accepting && again->awaited == read->awaited &&
          again->first_missing == read->first_missing && again->bits == read->bits &&
          again->seen == read->seen);
}

void parse_abort(const Buffer& bytes) {
  const auto read = decode_abort(bytes);
  if (!read) return;
  const auto again = decode_abort(encode_abort(*read));
  require(again && again->code() == read->code() && again->message() == read->message());
}

void parse_request(const Buffer& bytes) {
  const auto read = decode_request(bytes);
  if (!read.is_ok()) return;
  const auto again = decode_request(encode_request(*read));
  require(again.is_ok() && again->number == read->number && again->done == read->done &&
          again->first_missing == read->first_missing && again->bits == read->bits &&
          again->left == read->left && again->again == read->again);
}

void parse_report(const Buffer& bytes) {
  const auto read = decode_report(bytes);
  if (!read.is_ok()) return;
  const auto again = decode_report(encode_report(*read));
  require(again.is_ok() && *again == *read);
}

void parse_call(std::span<const std::byte> bytes) {
  if (bytes.size() < 2 * kCallDescriptionBytes) return;
  const auto one = decode_call_description(bytes.first<kCallDescriptionBytes>());
  const auto other = decode_call_description(bytes.subspan<kCallDescriptionBytes, kCallDescriptionBytes>());
  require(!to_string(one).empty());
  require(compare_calls({"rank 0", one}, {"rank 1", one}).is_ok());
  const bool are_same = compare_calls({"rank 0", one}, {"rank 1", other}).is_ok();
  require(are_same == (encode(one) == encode(other)));
  require(encode(decode_call_description(encode(one))) == encode(one));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const Buffer payload = Buffer::copy_of(bytes);
  switch (data[0] % 5) {
    case 0: parse_acknowledgement(payload); break;
    case 1: parse_abort(payload); break;
    case 2: parse_request(payload); break;
    case 3: parse_report(payload); break;
    default: parse_call(bytes); break;
  }
  return 0;
}
