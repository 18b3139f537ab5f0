#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/plan/codes.h"
#include "base/plan/field_visits.h"
#include "planning/plan/json_fields.h"
#include "square/plan.h"
#include "square/units.h"

namespace square {
namespace {

using plan_fields::JsonKey;
using plan_fields::Presence;
using plan_fields::Unit;
using planning::Fields;
using planning::Json;

// The longest latency that a plan may give: a day.
constexpr double kMaxLatencyMs = 86'400'000.0;
// Nodes on the far sides of all packings: sessions that share an entry have one copy each,
// so that a small file could ask for a lot of memory.
constexpr std::size_t kMaxPackedNodes = std::size_t{1} << 26U;
// Of streams and codes there are no more.
constexpr std::uint64_t kMostStreams = 65'535;

// The turn in which the reader takes a member of a plan: what a member refers to is read before it.
template <typename Value>
constexpr int kTurn = 0;
template <>
constexpr int kTurn<std::vector<PlanLink>> = 1;
template <>
constexpr int kTurn<std::vector<PlanCollective>> = 1;
template <>
constexpr int kTurn<std::vector<PlanSession>> = 2;
template <>
constexpr int kTurn<PlanCertificate> = 3;

std::string text_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string_view about(const std::pair<NodeId, NodeId>&) { return "a pair of nodes"; }
std::string_view about(const std::pair<NodeId, double>&) { return "a node and a length"; }
std::string_view about(const std::pair<StreamIndex, double>&) { return "a stream and a factor"; }

// "multicast, reduce or unicast"
template <typename Enum>
std::string words_of() {
  std::string words;
  constexpr auto& kAll = plan_fields::kValues<Enum>;
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    if (i > 0) words += i + 1 < kAll.size() ? ", " : " or ";
    words += to_string(kAll[i]);
  }
  return words;
}

class Reader {
 public:
  Result<Plan> read(const Json& root) {
    const Fields fields(root, "", error_);
    if (const std::string format = fields.text("format"); error_.is_ok() && format != kPlanFormat) {
      return invalid_argument(
          fmt::format("plan: format is \"{}\"; this release reads \"{}\"", format, kPlanFormat));
    }
    read_turn<0>(fields);
    read_turn<1>(fields);
    read_turn<2>(fields);
    check_sessions(fields);
    read_turn<3>(fields);
    if (!error_.is_ok()) return error_;
    return std::move(plan_);
  }

 private:
  template <int kThis>
  void read_turn(const Fields& fields) {
    plan_fields::for_each<Plan>([&](const auto& field) {
      using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
      if constexpr (kTurn<Value> == kThis) read_field(fields, field.json, plan_.*field.member);
    });
  }

  template <typename Struct>
  void read_fields(const Fields& fields, Struct& out) {
    plan_fields::for_each<Struct>(
        [&](const auto& field) { read_field(fields, field.json, out.*field.member); });
  }

  template <typename Value>
  void read_field(const Fields&, plan_fields::Nowhere, Value&) {}
  template <typename Value>
  void read_field(const Fields& fields, plan_fields::Inline, Value& out) {
    read_fields(fields, out);
  }
  template <typename Value>
  void read_field(const Fields& fields, const JsonKey& key, Value& out) {
    const bool may_lack = key.presence != Presence::kRequired;
    if (may_lack && !fields.has(key.key)) return;
    if (plan_fields::Listed<Value> && may_lack && fields.find_optional(key.key) == nullptr) return;
    take(fields, key, out);
  }

  void take(const Fields& fields, const JsonKey& key, bool& out) { out = fields.flag(key.key); }
  void take(const Fields& fields, const JsonKey& key, std::string& out) { out = fields.text(key.key); }
  void take(const Fields& fields, const JsonKey& key, double& out) {
    if (key.unit == Unit::kPlain) {
      out = fields.number(key.key);
    } else {
      out = fields.open_number(key.key);
      if (key.unit == Unit::kRate) out = mbps_to_bps(out);
    }
  }
  void take(const Fields& fields, const JsonKey& key, std::uint64_t& out) {
    if (key.unit != Unit::kHex) {
      out = fields.count(key.key);
      return;
    }
    const std::string text = fields.text(key.key);
    const char* const end = text.data() + text.size();
    const auto [read, code] = std::from_chars(text.data(), end, out, 16);
    if (text.empty() || code != std::errc() || read != end) fields.fail(key.key, "is no hexadecimal number");
  }
  void take(const Fields& fields, const JsonKey& key, std::uint32_t& out) {
    const std::uint64_t count = fields.count(key.key);
    if (count > kMostStreams) fields.fail(key.key, fmt::format("is more than {}", kMostStreams));
    out = static_cast<std::uint32_t>(std::min(count, kMostStreams));
  }
  void take(const Fields& fields, const JsonKey& key, Epoch& out) {
    const std::uint64_t epoch = fields.count(key.key);
    if (epoch > UINT32_MAX) fields.fail(key.key, "is too large");
    out = Epoch(static_cast<std::uint32_t>(epoch));
  }
  void take(const Fields& fields, const JsonKey& key, Duration& out) {
    out = latency(fields, key.key, fields.number(key.key));
  }
  void take(const Fields& fields, const JsonKey& key, NodeId& out) {
    if (const Json* value = fields.find(key.key)) out = known_node(*value, fields, key.key);
  }
  template <typename Tag>
  void take(const Fields& fields, const JsonKey& key, Id<Tag>& out) {
    out = parse_id<Id<Tag>>(fields.text(key.key), fields, key.key);
    if (key.refers) check_known(out, fields, key.key, "is");
  }
  // Nothing for null.
  template <typename T>
  void take(const Fields& fields, const JsonKey& key, std::optional<T>& out) {
    const Json* const value = fields.find(key.key);
    if (value == nullptr || value->is_null()) return;
    out.emplace();
    if constexpr (std::is_same_v<T, double>) {
      *out = fields.number(key.key);
      if (key.unit == Unit::kRate) *out = mbps_to_bps(*out);
    } else {
      take(fields, key, *out);
    }
  }
  // The key says whether the stream has a part; the part's members are in the same object.
  void take(const Fields& fields, const JsonKey& key, std::optional<PlanCodePart>& out) {
    if (fields.flag(key.key)) read_fields(fields, out.emplace());
  }
  template <typename T>
  void take(const Fields& fields, const JsonKey& key, std::vector<T>& out) {
    fields.each(key.key, [&](const Json& item, std::string where) {
      if constexpr (plan_fields::Listed<T>) {
        const Fields entry(item, std::move(where), error_);
        read_fields(entry, out.emplace_back());
        finish(entry, out.back());
      } else {
        T value{};
        if (take_entry(fields, key, item, value)) out.push_back(std::move(value));
      }
    });
  }
  // One entry of the file stands for a packing of each of its sessions.
  void take(const Fields& fields, const JsonKey& key, std::vector<PlanPacking>& out) {
    fields.each(key.key, [&](const Json& item, std::string where) {
      packings(Fields(item, std::move(where), error_), out);
    });
  }
  // A word of an enumeration, or a struct.
  template <typename T>
  void take(const Fields& fields, const JsonKey& key, T& out) {
    if constexpr (std::is_enum_v<T>) {
      const std::string word = fields.text(key.key);
      for (const T value : plan_fields::kValues<T>) {
        if (word != to_string(value)) continue;
        out = value;
        return;
      }
      fields.fail(key.key, fmt::format("is \"{}\", not {}", word, words_of<T>()));
    } else if (const Json* item = fields.find(key.key)) {
      read_fields(Fields(*item, fields.place(key.key), error_), out);
    }
  }

  // Takes an entry of a list, or says what it is not.
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item, NodeId& out) {
    out = known_node(item, fields, key.key);
    return true;
  }
  template <typename Tag>
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item, Id<Tag>& out) {
    if (!item.is_string()) return refuse(fields, key, "has an entry that is not a string");
    out = parse_id<Id<Tag>>(item.get<std::string>(), fields, key.key);
    if (key.refers) check_known(out, fields, key.key, "names");
    return true;
  }
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item, StreamIndex& out) {
    const bool is_index = item.is_number_unsigned() && item.get<std::uint64_t>() <= kMostStreams;
    if (!is_index) return refuse(fields, key, "has an entry that is no number of a stream");
    out = StreamIndex(item.get<std::uint16_t>());
    return true;
  }
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item, Duration& out) {
    if (!item.is_null() && !item.is_number())
      return refuse(fields, key, "has an entry that is neither a number nor null");
    out = item.is_null() ? Duration::max() : latency(fields, key.key, item.get<double>());
    return true;
  }
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item, double& out) {
    if (!item.is_number()) return refuse(fields, key, "has an entry that is not a number");
    out = item.get<double>();
    return true;
  }
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item, std::vector<double>& out) {
    if (!item.is_array() || !std::ranges::all_of(item, [](const Json& value) { return value.is_number(); }))
      return refuse(fields, key, "has an entry that is not a row of numbers");
    out = item.get<std::vector<double>>();
    return true;
  }
  template <typename A, typename B>
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item, std::pair<A, B>& out) {
    if (!item.is_array() || item.size() != 2 || (std::is_same_v<B, double> && !item[1].is_number()))
      return refuse(fields, key, fmt::format("has an entry that is not {}", about(out)));
    return take_entry(fields, key, item[0], out.first) && take_entry(fields, key, item[1], out.second);
  }
  bool take_entry(const Fields& fields, const JsonKey& key, const Json& item,
                  std::pair<LinkId, double>& out) {
    if (!item.is_array() || item.size() != 3 || !item[2].is_number())
      return refuse(fields, key, "has an entry that is not two nodes and a length");
    const NodeId from = known_node(item[0], fields, key.key);
    const auto found = link_ids_.find(std::pair(from, known_node(item[1], fields, key.key)));
    if (found == link_ids_.end()) {
      return refuse(fields, key,
                    fmt::format("names {} -> {}, which is not a link", text_of(item[0]), text_of(item[1])));
    }
    out = {found->second, item[2].get<double>()};
    return true;
  }

  static bool refuse(const Fields& fields, const JsonKey& key, std::string_view what) {
    fields.fail(key.key, what);
    return false;
  }

  NodeId known_node(const Json& value, const Fields& fields, std::string_view key) {
    const auto found = value.is_string() ? nodes_.find(value.get_ref<const std::string&>()) : nodes_.end();
    if (found != nodes_.end()) return found->second;
    fields.fail(key, fmt::format("names {}, which is not a node", text_of(value)));
    return {};
  }

  template <typename IdType>
  static IdType parse_id(const std::string& text, const Fields& fields, std::string_view key) {
    typename IdType::value_type number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || code != std::errc() || end != text.data() + text.size()) {
      fields.fail(key, fmt::format("is \"{}\", which is not an id: a decimal number in a string", text));
    }
    return IdType(number);
  }

  void check_known(CollectiveId id, const Fields& fields, std::string_view key, std::string_view verb) const {
    if (plan_.find_collective(id) != nullptr) return;
    fields.fail(key, fmt::format("{} {}, which is not a collective", verb, id.value()));
  }
  void check_known(SessionId id, const Fields& fields, std::string_view key, std::string_view verb) const {
    if (sessions_.contains(id)) return;
    fields.fail(key, fmt::format("{} {}, which is not a session", verb, id.value()));
  }

  static Duration latency(const Fields& fields, std::string_view key, double latency_ms) {
    if (latency_ms >= 0.0 && latency_ms <= kMaxLatencyMs) return from_seconds(latency_ms / 1e3);
    fields.fail(key, fmt::format("is not in 0 to {}", kMaxLatencyMs));
    return Duration(0);
  }

  // What is left to do with an entry of a list once it is read.
  template <typename Struct>
  void finish(const Fields&, Struct&) {}
  void finish(const Fields& fields, PlanNode& node) {
    const NodeId id(static_cast<std::uint32_t>(nodes_.size()));
    if (!nodes_.emplace(node.name, id).second) fields.fail("name", "is a node's already");
  }
  void finish(const Fields&, PlanLink& link) {
    const LinkId id(static_cast<std::uint32_t>(plan_.links.size() - 1));
    link_ids_.emplace(std::pair(link.from, link.to), id);
  }
  void finish(const Fields& fields, PlanCollective& collective) {
    if (!fields.has("lp_rate_mbps")) collective.lp_rate_bps = collective.rate_bps;
  }
  void finish(const Fields& fields, PlanSession& session) {
    if (const Status sound = check_codes(session); !sound.is_ok()) fields.fail("codes", sound.message());
  }

  // Collectives come before sessions, and a pair may come later in the list.
  void check_sessions(const Fields& fields) {
    for (const PlanSession& session : plan_.sessions) sessions_.insert(session.id);
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) {
      for (const SessionId session : plan_.collectives[c].sessions) {
        if (!sessions_.contains(session))
          check_known(session, fields, fmt::format("collectives[{}].sessions", c), "names");
      }
    }
    for (std::size_t s = 0; s < plan_.sessions.size(); ++s) {
      const std::optional<SessionId>& pair = plan_.sessions[s].pair;
      if (pair && !sessions_.contains(*pair))
        check_known(*pair, fields, fmt::format("sessions[{}].pair", s), "is");
    }
  }

  void packings(const Fields& fields, std::vector<PlanPacking>& out) {
    PlanPacking packing;
    std::vector<SessionId> sessions;
    plan_fields::for_each<PlanPacking>([&](const auto& field) {
      using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
      if constexpr (std::is_same_v<Value, SessionId>) {
        take(fields, field.json, sessions);
      } else {
        read_field(fields, field.json, packing.*field.member);
      }
    });
    std::size_t nodes = 0;
    for (const PlanPacking::Cut& cut : packing.cuts) nodes += cut.far_side.size() + 1;
    for (const SessionId id : sessions) {
      check_known(id, fields, "sessions", "names");
      if (!error_.is_ok()) return;
      if (nodes > kMaxPackedNodes - packed_nodes_) {
        fields.fail("sessions", fmt::format("brings the nodes of all cuts over {}", kMaxPackedNodes));
        return;
      }
      packed_nodes_ += nodes;
      packing.session = id;
      out.push_back(packing);
    }
  }

  Status error_;
  Plan plan_;
  std::map<std::string, NodeId, std::less<>> nodes_;
  std::map<std::pair<NodeId, NodeId>, LinkId> link_ids_;
  std::set<SessionId> sessions_;
  std::size_t packed_nodes_ = 0;
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
