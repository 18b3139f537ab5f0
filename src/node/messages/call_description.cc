#include "node/messages/call_description.h"

#include <fmt/format.h>

#include <bit>
#include <string_view>

namespace square {
namespace {

enum Offset : std::size_t {
  kCallAt = 0,
  kElementTypeAt = 2,
  kReduceOpAt = 3,
  kGroupSizeAt = 4,
  kSizeBytesAt = 8,
  kCompressionAt = 16,  // and three bytes of zero
  kBlockAt = 20,
  kFractionAt = 24,
};
static_assert(kFractionAt + sizeof(double) == kCallDescriptionBytes);

template <typename Number>
void put(CallDescriptionBytes& bytes, std::size_t at, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    bytes[at + i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xffU);
}

template <typename Number>
Number get(std::span<const std::byte, kCallDescriptionBytes> bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;)
    value = value << 8U | std::to_integer<std::uint64_t>(bytes[at + i]);
  return static_cast<Number>(value);
}

}  // namespace

std::string to_string(GroupCall call) {
  constexpr std::array<std::string_view, 12> kNames{
      "a message",  "broadcast", "reduce",  "all_reduce", "all_gather",      "reduce_scatter",
      "all_to_all", "gather",    "scatter", "barrier",    "ring all_reduce", "compressed all_reduce"};
  const auto kind = static_cast<std::size_t>(call.kind);
  return fmt::format("{} (call {} of the group)", kind < kNames.size() ? kNames[kind] : "something unknown",
                     call.number + 1);
}

std::string to_string(const CallDescription& description) {
  std::string text;
  if (description.call.kind != CallKind::kNone) text = to_string(description.call);
  if (description.reduction != kNoReduction) {
    text += fmt::format("{}{} bytes of {} ({})", text.empty() ? "" : " of ", description.size_bytes,
                        to_string(description.reduction.type), to_string(description.reduction.op));
  }
  if (description.compression.kind != CompressionKind::kNone)
    text += fmt::format(" as {}", to_string(description.compression));
  if (description.group_size != 0) text += fmt::format(" in a group of {}", description.group_size);
  return text.empty() ? "something unknown" : text;
}

CallDescriptionBytes encode(const CallDescription& description) {
  const Compression& compression = description.compression;
  CallDescriptionBytes bytes{};
  put(bytes, kCallAt, to_bits(description.call));
  put(bytes, kElementTypeAt, static_cast<std::uint8_t>(description.reduction.type));
  put(bytes, kReduceOpAt, static_cast<std::uint8_t>(description.reduction.op));
  put(bytes, kGroupSizeAt, description.group_size);
  put(bytes, kSizeBytesAt, description.size_bytes);
  put(bytes, kCompressionAt, static_cast<std::uint8_t>(compression.kind));
  // What the kind does not use may differ.
  if (compression.kind == CompressionKind::kInt8) put(bytes, kBlockAt, compression.block);
  if (compression.kind == CompressionKind::kTopK)
    put(bytes, kFractionAt, std::bit_cast<std::uint64_t>(compression.fraction));
  return bytes;
}

CallDescription decode_call_description(std::span<const std::byte, kCallDescriptionBytes> bytes) {
  CallDescription description;
  description.call = group_call_from_bits(get<std::uint16_t>(bytes, kCallAt));
  description.reduction = {static_cast<ElementType>(get<std::uint8_t>(bytes, kElementTypeAt)),
                           static_cast<ReduceOp>(get<std::uint8_t>(bytes, kReduceOpAt))};
  description.group_size = get<std::uint32_t>(bytes, kGroupSizeAt);
  description.size_bytes = get<std::uint64_t>(bytes, kSizeBytesAt);
  Compression& compression = description.compression;
  compression.kind = static_cast<CompressionKind>(get<std::uint8_t>(bytes, kCompressionAt));
  if (compression.kind == CompressionKind::kInt8) compression.block = get<std::uint32_t>(bytes, kBlockAt);
  if (compression.kind == CompressionKind::kTopK)
    compression.fraction = std::bit_cast<double>(get<std::uint64_t>(bytes, kFractionAt));
  // As it is by default: the text then leaves it out.
  compression.error_feedback = compression.kind == CompressionKind::kTopK;
  return description;
}

Status different_calls(const Caller& one, const Caller& other) {
  // Without what may differ.
  const auto text = [](const Caller& caller) {
    return to_string(decode_call_description(encode(caller.called)));
  };
  return invalid_argument(fmt::format("members must call the same: {} called {}, {} called {}", one.who,
                                      text(one), other.who, text(other)));
}

Status compare_calls(const Caller& one, const Caller& other) {
  return encode(one.called) == encode(other.called) ? Status::ok() : different_calls(one, other);
}

}  // namespace square
