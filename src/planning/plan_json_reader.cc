#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/check.h"
#include "square/plan.h"
#include "square/units.h"

namespace square {
namespace {

using Json = nlohmann::json;

// The longest latency that a plan may give: a day.
constexpr double kMaxLatencyMs = 86'400'000.0;

// One JSON object and where it is. The first thing that is wrong is kept in `error`, and
// everything read after it is a default.
class Fields {
 public:
  Fields(const Json& object, std::string where, Status& error)
      : object_(object), where_(std::move(where)), error_(error) {
    if (!object_.is_object()) fail("", "is not an object");
  }

  void fail(std::string_view key, std::string_view what) const {
    if (!error_.is_ok()) return;
    const std::string_view dot = where_.empty() || key.empty() ? "" : ".";
    error_ = invalid_argument(fmt::format("plan: {}{}{} {}", where_, dot, key, what));
  }

  [[nodiscard]] const Json* find(std::string_view key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) {
      fail(key, "is missing");
      return nullptr;
    }
    return &*found;
  }

  [[nodiscard]] std::string text(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) {
      fail(key, "is not a string");
      return {};
    }
    return value->get<std::string>();
  }

  [[nodiscard]] bool flag(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(key, "is not true or false");
    return value->is_boolean() && value->get<bool>();
  }

  [[nodiscard]] double number(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0.0;
    if (!value->is_number()) fail(key, "is not a number");
    return value->is_number() ? value->get<double>() : 0.0;
  }

  // A number, or null for infinite.
  [[nodiscard]] double open_number(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0.0;
    if (value->is_null()) return kUnlimited;
    if (!value->is_number()) fail(key, "is neither a number nor null");
    return value->is_number() ? value->get<double>() : 0.0;
  }
  [[nodiscard]] double rate(std::string_view key) const { return mbps_to_bps(open_number(key)); }

  [[nodiscard]] std::uint64_t count(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) fail(key, "is not a whole number of at least 0");
    return value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
  }

  // Every entry of the array, with its place.
  template <typename Use>
  void each(std::string_view key, Use use) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) {
      fail(key, "is not an array");
      return;
    }
    for (std::size_t i = 0; i < value->size() && error_.is_ok(); ++i) use((*value)[i], place(key, i));
  }

  [[nodiscard]] std::string place(std::string_view key, std::size_t i) const {
    return fmt::format("{}{}{}[{}]", where_, where_.empty() ? "" : ".", key, i);
  }

 private:
  const Json& object_;
  std::string where_;
  Status& error_;
};

class Reader {
 public:
  Result<Plan> read(const Json& root) {
    const Fields fields(root, "", error_);
    if (const std::string format = fields.text("format"); error_.is_ok() && format != kPlanFormat) {
      return invalid_argument(
          fmt::format("plan: format is \"{}\"; this release reads \"{}\"", format, kPlanFormat));
    }
    const std::uint64_t epoch = fields.count("epoch");
    if (epoch > UINT32_MAX) fields.fail("epoch", "is too large");
    plan_.epoch = Epoch(static_cast<std::uint32_t>(epoch));
    plan_.policy = fields.text("policy");
    plan_.solve_seconds = fields.number("solve_seconds");
    plan_.min_rate_bps = fields.rate("min_rate_mbps");
    plan_.total_rate_bps = fields.rate("total_rate_mbps");
    plan_.jain = fields.number("jain");
    // References come after what they refer to.
    fields.each("nodes", [&](const Json& item, std::string where) { node(item, std::move(where)); });
    fields.each("links", [&](const Json& item, std::string where) { link(item, std::move(where)); });
    fields.each("tenants", [&](const Json& item, std::string where) {
      const Fields tenant(item, std::move(where), error_);
      plan_.tenants.push_back({tenant.text("name"), tenant.number("weight"), tenant.rate("rate_mbps")});
    });
    fields.each("collectives",
                [&](const Json& item, std::string where) { collective(item, std::move(where)); });
    fields.each("sessions", [&](const Json& item, std::string where) { session(item, std::move(where)); });
    check_sessions(fields);
    if (const Json* item = fields.find("certificate")) certificate(*item);
    if (!error_.is_ok()) return error_;
    return std::move(plan_);
  }

 private:
  void node(const Json& item, std::string where) {
    const Fields fields(item, std::move(where), error_);
    PlanNode out{fields.text("name"), fields.rate("egress_mbps"), fields.rate("ingress_mbps")};
    const NodeId id(static_cast<std::uint32_t>(plan_.nodes.size()));
    if (!nodes_.emplace(out.name, id).second) fields.fail("name", "is a node's already");
    plan_.nodes.push_back(std::move(out));
  }

  NodeId known_node(const Json& value, const Fields& fields, std::string_view key) {
    const auto found = value.is_string() ? nodes_.find(value.get_ref<const std::string&>()) : nodes_.end();
    if (found != nodes_.end()) return found->second;
    fields.fail(key, fmt::format("names {}, which is not a node",
                                 value.dump(-1, ' ', false, Json::error_handler_t::replace)));
    return {};
  }

  NodeId known_node(const Fields& fields, std::string_view key) {
    const Json* value = fields.find(key);
    return value == nullptr ? NodeId() : known_node(*value, fields, key);
  }

  std::vector<NodeId> known_nodes(const Fields& fields, std::string_view key) {
    std::vector<NodeId> out;
    fields.each(key,
                [&](const Json& item, const std::string&) { out.push_back(known_node(item, fields, key)); });
    return out;
  }

  template <typename IdType>
  IdType parse_id(const std::string& text, const Fields& fields, std::string_view key) {
    typename IdType::value_type number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || code != std::errc() || end != text.data() + text.size()) {
      fields.fail(key, fmt::format("is \"{}\", which is not an id: a decimal number in a string", text));
    }
    return IdType(number);
  }
  template <typename IdType>
  IdType id(const Fields& fields, std::string_view key) {
    return parse_id<IdType>(fields.text(key), fields, key);
  }

  CollectiveId known_collective(const Fields& fields, std::string_view key) {
    const auto number = id<CollectiveId>(fields, key);
    if (plan_.find_collective(number) == nullptr) {
      fields.fail(key, fmt::format("is {}, which is not a collective", number.value()));
    }
    return number;
  }

  void link(const Json& item, std::string where) {
    const Fields fields(item, std::move(where), error_);
    PlanLink out;
    out.from = known_node(fields, "from");
    out.to = known_node(fields, "to");
    out.capacity_bps = fields.rate("capacity_mbps");
    out.load_bps = fields.rate("load_mbps");
    const double latency_ms = fields.number("latency_ms");
    if (!(latency_ms >= 0.0 && latency_ms <= kMaxLatencyMs)) {
      fields.fail("latency_ms", fmt::format("is not in 0 to {}", kMaxLatencyMs));
    } else {
      out.latency = from_seconds(latency_ms / 1e3);
    }
    plan_.links.push_back(out);
  }

  void collective(const Json& item, std::string where) {
    const Fields fields(item, std::move(where), error_);
    PlanCollective out;
    out.id = id<CollectiveId>(fields, "id");
    out.tenant = fields.text("tenant");
    const Result<CollectiveOp> op = parse_collective_op(fields.text("op"));
    if (op.is_ok()) {
      out.op = *op;
    } else {
      fields.fail("op", fmt::format("is not an operation: {}", op.status().message()));
    }
    out.weight = fields.number("weight");
    out.size_bytes = fields.count("bytes");
    out.rate_bps = fields.rate("rate_mbps");
    out.bound_bps = fields.rate("bound_mbps");
    out.completion_seconds = fields.open_number("completion_seconds");
    fields.each("sessions", [&](const Json& entry, const std::string&) {
      if (!entry.is_string()) {
        fields.fail("sessions", "has an entry that is not a string");
        return;
      }
      out.sessions.push_back(parse_id<SessionId>(entry.get<std::string>(), fields, "sessions"));
    });
    plan_.collectives.push_back(std::move(out));
  }

  void session(const Json& item, std::string where) {
    const Fields fields(item, std::move(where), error_);
    PlanSession out;
    out.id = id<SessionId>(fields, "id");
    out.collective = known_collective(fields, "collective");
    const std::string kind = fields.text("kind");
    bool known = false;
    for (const SessionKind candidate :
         {SessionKind::kMulticast, SessionKind::kReduce, SessionKind::kUnicast}) {
      if (kind != to_string(candidate)) continue;
      out.kind = candidate;
      known = true;
    }
    if (!known) fields.fail("kind", fmt::format("is \"{}\", not multicast, reduce or unicast", kind));
    out.root = known_node(fields, "root");
    out.members = known_nodes(fields, "members");
    out.offset_bytes = fields.count("offset_bytes");
    out.size_bytes = fields.count("size_bytes");
    if (const Json* pair = fields.find("pair"); pair != nullptr && !pair->is_null()) {
      out.pair = id<SessionId>(fields, "pair");
    }
    out.lp_rate_bps = fields.rate("lp_rate_mbps");
    out.rate_bps = fields.rate("rate_mbps");
    fields.each("paths", [&](const Json& entry, std::string place) {
      const Fields path(entry, std::move(place), error_);
      out.paths.push_back({known_node(path, "member"), known_nodes(path, "nodes"), path.rate("rate_mbps")});
    });
    fields.each("streams", [&](const Json& entry, std::string place) {
      out.streams.push_back(stream(Fields(entry, std::move(place), error_)));
    });
    plan_.sessions.push_back(std::move(out));
  }

  PlanStream stream(const Fields& fields) {
    PlanStream out;
    out.rate_bps = fields.rate("rate_mbps");
    out.coded = fields.flag("coded");
    fields.each("links", [&](const Json& entry, const std::string&) {
      if (!entry.is_array() || entry.size() != 2) {
        fields.fail("links", "has an entry that is not a pair of nodes");
        return;
      }
      const NodeId from = known_node(entry[0], fields, "links");
      out.links.emplace_back(from, known_node(entry[1], fields, "links"));
    });
    return out;
  }

  // Collectives come before sessions, and a pair may come later in the list.
  void check_sessions(const Fields& fields) {
    std::set<SessionId> known;
    for (const PlanSession& session : plan_.sessions) known.insert(session.id);
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) {
      for (const SessionId session : plan_.collectives[c].sessions) {
        if (!known.contains(session)) {
          fields.fail(fmt::format("collectives[{}].sessions", c),
                      fmt::format("names {}, which is not a session", session.value()));
        }
      }
    }
    for (std::size_t s = 0; s < plan_.sessions.size(); ++s) {
      const std::optional<SessionId>& pair = plan_.sessions[s].pair;
      if (pair.has_value() && !known.contains(*pair)) {
        fields.fail(fmt::format("sessions[{}].pair", s),
                    fmt::format("is {}, which is not a session", pair->value()));
      }
    }
  }

  void certificate(const Json& item) {
    const Fields fields(item, "certificate", error_);
    const Json* level = fields.find("level_bound_mbps");
    if (level != nullptr && !level->is_null()) {
      plan_.certificate.level_bound_bps = mbps_to_bps(fields.number("level_bound_mbps"));
    }
    fields.each("cuts", [&](const Json& entry, std::string place) {
      const Fields cut(entry, std::move(place), error_);
      const CollectiveId bounded = known_collective(cut, "collective");
      plan_.certificate.cuts.push_back({bounded, known_nodes(cut, "source_side"), cut.rate("bound_mbps")});
    });
  }

  Status error_;
  Plan plan_;
  std::map<std::string, NodeId, std::less<>> nodes_;
};

}  // namespace

Result<Plan> plan_from_json(std::string_view json) {
  if (json.size() > kMaxPlanBytes) {
    return resource_exhausted(
        fmt::format("plan: {} bytes of JSON, at most {} are read", json.size(), kMaxPlanBytes));
  }
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return invalid_argument("plan: this is not JSON");
  return Reader().read(root);
}

}  // namespace square
