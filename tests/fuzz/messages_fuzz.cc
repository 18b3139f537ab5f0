// The bodies of messages: of a gateway and its processes, and of a controller and its nodes. Whatever the
// bytes, a value or an error, and what is taken says the same when it is written again. A plan's parts are
// put together and installed as a node does. libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/messages.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "controller/part_reader.h"
#include "controller/protocol.h"
#include "gateway/messages.h"
#include "node/plan/installed_plan.h"

namespace {

using namespace square;

using Bytes = std::span<const std::byte>;

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename Message>
void parse_body(gateway::MessageType type, Bytes body) {
  Message message;
  const Status read = gateway::parse_body(type, body, message);
  if (!read.is_ok()) return;
  const std::string written = gateway::body_of(message);
  Message again;
  require(gateway::parse_body(type, std::as_bytes(std::span(written)), again).is_ok());
  require(gateway::body_of(again) == written);
}

void parse_status(Bytes body) {
  v1::GatewayStatus message;
  if (!gateway::parse_body(gateway::MessageType::kOutcome, body, message).is_ok()) return;
  const Status status = gateway::status_of(message);
  require(status.is_ok() == (message.code() == 0) && !status.to_string().empty());
  v1::GatewayStatus written;
  gateway::put_status(status, written);
  require(gateway::status_of(written).code() == status.code());
}

void parse_group(Bytes body) {
  v1::RegisterGroupRequest message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) return;
  const auto group = controller::from_message(message);
  if (!group.is_ok()) return;
  const std::string written = controller::to_message(*group).SerializeAsString();
  require(message.ParseFromString(written));
  require(controller::to_message(controller::from_message(message).value()).SerializeAsString() == written);
}

void parse_revoked(Bytes body) {
  v1::Revoked message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) return;
  const auto revoked = controller::from_message(message);
  require(controller::from_message(controller::to_message(revoked)) == revoked);
}

void install(const std::shared_ptr<const Plan>& plan, const InstalledPlan* base = nullptr) {
  constexpr std::size_t kWindowBytes = std::size_t{1} << 20U;
  const InstalledPlan installed(plan, "a", kWindowBytes, base);
  for (const PlanNode& node : plan->nodes) (void)installed.pace_bps(node.name);
  for (const LocalStream* stream : installed.streams()) require(stream->share().weight > 0);
  if (base == nullptr) install(plan, &installed);
}

// Whole, and then once more as a change of itself.
void parse_part(Bytes body) {
  v1::PlanPart message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) return;
  controller::PartReader reader("a");
  require(!reader.lacks_base(message) || !reader.read(message).is_ok());
  message.set_base_epoch(0);
  const auto plan = reader.read(message);
  if (!plan.is_ok()) return;
  install(*plan);
  message.set_base_epoch(message.epoch());
  const auto changed = reader.read(message);
  if (changed.is_ok()) install(*changed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using enum gateway::MessageType;
  // It would name every string that is no UTF-8.
  [[maybe_unused]] static const auto said = google::protobuf::SetLogHandler(nullptr);
  if (size == 0) return 0;
  const Bytes body = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 10) {
    case 0: parse_body<v1::GatewayHello>(kHello, body); break;
    case 1: parse_body<v1::GatewayRegister>(kRegister, body); break;
    case 2: parse_body<v1::GatewayRegistered>(kRegistered, body); break;
    case 3: parse_body<v1::GatewayPost>(kPost, body); break;
    case 4: parse_body<v1::GatewayStaged>(kStaged, body); break;
    case 5: parse_body<v1::GatewayFail>(kFail, body); break;
    case 6: parse_status(body); break;
    case 7: parse_group(body); break;
    case 8: parse_revoked(body); break;
    default: parse_part(body); break;
  }
  return 0;
}
