#include "controller/part_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/plan/codes.h"
#include "controller/part_records.h"

namespace square::controller {
namespace {

using Link = std::pair<NodeId, NodeId>;

constexpr std::size_t kMaxStreams = std::numeric_limits<StreamIndex::value_type>::max();

Status broken(std::string_view what) {
  return invalid_argument(fmt::format("the controller's part of a plan has {}", what));
}

// Reads structs from what PartWriter writes.
class RecordReader {
 public:
  template <plan_fields::Listed Struct, typename Record>
  static Status read(const Record& record, Struct& out) {
    Status status;
    plan_fields::for_each<Struct>([&](const auto& field) {
      if (status.is_ok()) status = read_field(record, field.part, out.*field.member);
    });
    return status.is_ok() ? finish(out) : status;
  }

 private:
  template <typename T, typename Record>
  static Status read_field(const Record&, plan_fields::Nowhere, T&) {
    return {};
  }
  template <typename T, typename Record>
  static Status read_field(const Record& record, plan_fields::Inline, T& out) {
    return read(record, value_in(out));
  }
  template <typename First, typename Second, typename Record, typename A, typename B>
  static Status read_field(const Record& record, const plan_fields::PartPair<First, Second>& part,
                           std::vector<std::pair<A, B>>& out) {
    const auto& firsts = part.first.get(record);
    const auto& seconds = part.second.get(record);
    if (firsts.size() != seconds.size()) return broken("a sum with a wrong figure");
    for (int i = 0; i < firsts.size(); ++i) {
      auto& [first, second] = out.emplace_back();
      SQUARE_RETURN_IF_ERROR(take(firsts[i], first));
      second = seconds[i];
    }
    return {};
  }
  template <typename... Call, typename Record, typename T>
  static Status read_field(const Record& record, const plan_fields::PartName<Call...>& part, T& out) {
    if constexpr (kMayLack<plan_fields::PartName<Call...>, Record>) {
      if (!part.has(record)) return {};
    }
    return take(part.get(record), value_in(out));
  }

  template <typename T>
  static T& value_in(T& out) {
    return out;
  }
  template <typename T>
  static T& value_in(std::optional<T>& out) {
    return out.emplace();
  }

  // No rate, weight or size is less than nothing.
  static Status take(double value, double& out) {
    out = value;
    return out >= 0 ? Status() : broken("a figure below 0");
  }
  static Status take(std::int64_t value, Duration& out) {
    out = Duration(value);
    return out >= Duration(0) ? Status() : broken("a figure below 0");
  }
  template <typename Tag, typename Number>
  static Status take(std::uint32_t value, Id<Tag, Number>& out) {
    out = Id<Tag, Number>(static_cast<Number>(value));
    return out.value() == value ? Status() : broken("a number that is too large");
  }
  template <typename Items, typename T>
  static Status take(const Items& items, std::vector<T>& out) {
    for (const auto& item : items) SQUARE_RETURN_IF_ERROR(take(item, out.emplace_back()));
    return {};
  }
  static Status take(const google::protobuf::RepeatedField<double>& numbers, std::vector<double>& out) {
    out.assign(numbers.begin(), numbers.end());
    return {};
  }
  // All rows as one: finish() cuts it, where the length of a row is known.
  static Status take(const google::protobuf::RepeatedField<double>& numbers,
                     std::vector<std::vector<double>>& out) {
    return take(numbers, out.emplace_back());
  }
  static Status take(const google::protobuf::RepeatedField<std::uint32_t>& ends, std::vector<Link>& out) {
    if (ends.size() % 2 != 0) return broken("a link without an end");
    for (int i = 0; i < ends.size(); i += 2) out.emplace_back(NodeId(ends[i]), NodeId(ends[i + 1]));
    return {};
  }
  template <typename Value, typename T>
  static Status take(const Value& value, T& out) {
    if constexpr (plan_fields::Listed<T>) {
      return read(value, out);
    } else if constexpr (std::is_enum_v<T>) {
      const auto known = std::ranges::find(plan_fields::kValues<T>, value, &wire_value<T>);
      if (known == plan_fields::kValues<T>.end()) return broken("a number for no word that is known");
      out = *known;
    } else {
      out = value;
    }
    return {};
  }

  template <typename Struct>
  static Status finish(Struct&) {
    return {};
  }
  static Status finish(PlanCode& code) {
    if (code.blocks > kMaxCodeBlocks) return broken("a code with too many blocks");
    for (PlanCode::Sink& sink : code.sinks) {
      const std::vector<double> all = std::move(sink.inverse.front());
      if (all.size() != std::size_t{code.blocks} * code.blocks) return broken("a code without its inverse");
      sink.inverse.clear();
      for (auto row = all.begin(); row != all.end(); row += code.blocks)
        sink.inverse.emplace_back(row, row + code.blocks);
    }
    return {};
  }
  static Status finish(PlanSession& session) {
    if (session.streams.size() > kMaxStreams) return broken("too many streams");
    return check_codes(session).is_ok() ? Status() : broken("a code that cannot be followed");
  }
};

std::string key_of(const PlanTenant& tenant) { return tenant.name; }
Link key_of(const PlanLink& link) { return {link.from, link.to}; }
CollectiveId key_of(const PlanCollective& collective) { return collective.id; }
SessionId key_of(const PlanSession& session) { return session.id; }

// The values of before, in ascending order, without those that are gone, and with those that are told.
template <typename Record, typename Value, typename Key, typename Told>
Status merge(std::vector<Value>& values, const Told& told, const std::set<Key>& gone) {
  std::vector<Value> before = std::exchange(values, {});
  values.reserve(before.size() + static_cast<std::size_t>(told.size()));
  auto old = before.begin();
  const auto keep_until = [&](const Key* end) {
    for (; old != before.end() && (end == nullptr || key_of(*old) < *end); ++old) {
      if (!gone.contains(key_of(*old))) values.push_back(std::move(*old));
    }
  };
  for (const std::string& bytes : told) {
    Record record;
    if (!record.ParseFromString(bytes)) return broken("a record that cannot be read");
    Value value;
    SQUARE_RETURN_IF_ERROR(RecordReader::read(record, value));
    const Key key = key_of(value);
    if (!values.empty() && !(key_of(values.back()) < key)) return broken("records in another order");
    keep_until(&key);
    if (old != before.end() && key_of(*old) == key) ++old;
    values.push_back(std::move(value));
  }
  keep_until(nullptr);
  return {};
}

Status merge_nodes(std::vector<PlanNode>& nodes, const v1::PlanPart& part) {
  if (part.nodes().empty()) return {};
  nodes.clear();
  for (const std::string& bytes : part.nodes()) {
    v1::PartNode record;
    if (!record.ParseFromString(bytes)) return broken("a record that cannot be read");
    SQUARE_RETURN_IF_ERROR(RecordReader::read(record, nodes.emplace_back()));
  }
  return {};
}

// Everything that is meant by a number is there.
Status check_numbers(const Plan& plan) {
  const auto is_node = [&](NodeId id) { return id.index() < plan.nodes.size(); };
  const auto are_nodes = [&](const Link& link) { return is_node(link.first) && is_node(link.second); };
  for (const PlanLink& link : plan.links) {
    if (!are_nodes(key_of(link))) return broken("a link of an unknown node");
  }
  for (const PlanCollective& collective : plan.collectives) {
    if (collective.since == Epoch(0) || collective.since > plan.epoch)
      return broken("a collective since a plan that cannot be");
  }
  for (const PlanSession& session : plan.sessions) {
    if (!is_node(session.root) || !std::ranges::all_of(session.members, is_node)) {
      return broken("a session of an unknown node");
    }
    for (const PlanStream& stream : session.streams) {
      if (!std::ranges::all_of(stream.links, are_nodes)) return broken("a stream over an unknown node");
    }
    if (session.pair && plan.find_session(*session.pair) == nullptr) return broken("half of a share");
    if (plan.find_collective(session.collective) == nullptr) return broken("a session of no collective");
  }
  return {};
}

template <typename Id, typename Numbers>
std::set<Id> ids_of(const Numbers& numbers) {
  std::set<Id> ids;
  for (const auto number : numbers) ids.insert(Id(number));
  return ids;
}

std::set<Link> links_of(const google::protobuf::RepeatedField<std::uint64_t>& numbers) {
  std::set<Link> links;
  for (const std::uint64_t number : numbers) {
    links.emplace(NodeId(static_cast<std::uint32_t>(number >> 32U)),
                  NodeId(static_cast<std::uint32_t>(number)));
  }
  return links;
}

}  // namespace

const Plan* PartReader::base_of(const v1::PlanPart& part) const {
  const auto found = std::ranges::find_if(kept_, [&](const std::shared_ptr<const Plan>& plan) {
    return plan->epoch == Epoch(part.base_epoch()) && plan->origin == PlanOrigin{part.store(), part.term()};
  });
  return found == kept_.end() ? nullptr : found->get();
}

bool PartReader::lacks_base(const v1::PlanPart& part) const {
  return part.base_epoch() != 0 && base_of(part) == nullptr;
}

Result<std::shared_ptr<const Plan>> PartReader::read(const v1::PlanPart& part) {
  if (lacks_base(part)) {
    return failed_precondition(
        fmt::format("plan {} is told against plan {}, which is not here", part.epoch(), part.base_epoch()));
  }
  const Plan* const base = part.base_epoch() == 0 ? nullptr : base_of(part);
  Plan plan = base == nullptr ? Plan() : *base;
  SQUARE_RETURN_IF_ERROR(RecordReader::read(part, plan));
  plan.part->node = node_;
  SQUARE_RETURN_IF_ERROR(merge_nodes(plan.nodes, part));
  SQUARE_RETURN_IF_ERROR(
      merge<v1::PartTenant>(plan.tenants, part.tenants(),
                            std::set<std::string>(part.gone_tenants().begin(), part.gone_tenants().end())));
  SQUARE_RETURN_IF_ERROR(merge<v1::PartLink>(plan.links, part.links(), links_of(part.gone_links())));
  SQUARE_RETURN_IF_ERROR(merge<v1::PartCollective>(plan.collectives, part.collectives(),
                                                   ids_of<CollectiveId>(part.gone_collectives())));
  SQUARE_RETURN_IF_ERROR(
      merge<v1::PartSession>(plan.sessions, part.sessions(), ids_of<SessionId>(part.gone_sessions())));
  SQUARE_RETURN_IF_ERROR(check_numbers(plan));
  kept_.push_back(std::make_shared<const Plan>(std::move(plan)));
  if (kept_.size() > kKeptParts) kept_.pop_front();
  return kept_.back();
}

}  // namespace square::controller
