#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/plan/codes.h"
#include "planning/plan/json_fields.h"
#include "square/plan.h"
#include "square/scenario.h"
#include "square/units.h"

namespace square {
namespace {

using planning::Fields;
using planning::Json;

// The longest latency that a plan may give: a day.
constexpr double kMaxLatencyMs = 86'400'000.0;
// Nodes on the far sides of all packings: sessions that share an entry have one copy each,
// so that a small file could ask for a lot of memory.
constexpr std::size_t kMaxPackedNodes = std::size_t{1} << 26U;

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
    if (const Json* item = fields.find_optional("origin")) origin(*item);
    plan_.policy = fields.text("policy");
    plan_.solve_seconds = fields.number("solve_seconds");
    plan_.min_rate_bps = fields.rate("min_rate_mbps");
    plan_.total_rate_bps = fields.rate("total_rate_mbps");
    plan_.jain = fields.number("jain");
    plan_.cost_usd_per_hour = fields.number_or("cost_usd_per_hour", 0.0);
    plan_.budget_usd_per_hour = fields.optional_number("budget_usd_per_hour");
    plan_.realised = fields.flag_or("realised", true);
    plan_.provisional = fields.flag_or("provisional", false);
    if (const Json* item = fields.find_optional("headroom")) headroom(*item);
    // References come after what they refer to.
    fields.each("nodes", [&](const Json& item, std::string where) { node(item, std::move(where)); });
    fields.each("links", [&](const Json& item, std::string where) { link(item, std::move(where)); });
    fields.each("tenants", [&](const Json& item, std::string where) {
      const Fields tenant(item, std::move(where), error_);
      plan_.tenants.push_back({tenant.text("name"), tenant.number("weight"), tenant.rate("rate_mbps")});
      Quota& open = plan_.tenants.back().open;
      if (tenant.has("open_operations")) open.operations = tenant.count("open_operations");
      if (tenant.has("open_bytes")) open.bytes = tenant.count("open_bytes");
    });
    fields.each("collectives",
                [&](const Json& item, std::string where) { collective(item, std::move(where)); });
    fields.each("sessions", [&](const Json& item, std::string where) { session(item, std::move(where)); });
    check_sessions(fields);
    if (const Json* item = fields.find("certificate")) certificate(*item);
    if (fields.find_optional("changes") != nullptr) changes(fields);
    if (!error_.is_ok()) return error_;
    return std::move(plan_);
  }

 private:
  void origin(const Json& item) {
    const Fields fields(item, "origin", error_);
    const std::string store = fields.text("store");
    const char* const end = store.data() + store.size();
    const auto [read, code] = std::from_chars(store.data(), end, plan_.origin.store, 16);
    if (store.empty() || code != std::errc() || read != end) fields.fail("store", "is no hexadecimal number");
    plan_.origin.term = fields.count("term");
  }

  void node(const Json& item, std::string where) {
    const Fields fields(item, std::move(where), error_);
    PlanNode out{fields.text("name"), fields.rate("egress_mbps"), fields.rate("ingress_mbps"),
                 fields.flag_or("relays", true)};
    const NodeId id(static_cast<std::uint32_t>(plan_.nodes.size()));
    if (!nodes_.emplace(out.name, id).second) fields.fail("name", "is a node's already");
    plan_.nodes.push_back(std::move(out));
  }

  NodeId known_node(const Json& value, const Fields& fields, std::string_view key) {
    const auto found = value.is_string() ? nodes_.find(value.get_ref<const std::string&>()) : nodes_.end();
    if (found != nodes_.end()) return found->second;
    fields.fail(key, fmt::format("names {}, which is not a node", text_of(value)));
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

  // Every id of the list.
  template <typename IdType, typename Use>
  void ids(const Fields& fields, std::string_view key, Use use) {
    fields.each(key, [&](const Json& entry, const std::string&) {
      if (!entry.is_string()) {
        fields.fail(key, "has an entry that is not a string");
        return;
      }
      use(parse_id<IdType>(entry.get<std::string>(), fields, key));
    });
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
    out.latency = latency(fields, "latency_ms", fields.number("latency_ms"));
    out.price_usd_per_gb = fields.number_or("price_usd_per_gb", 0.0);
    out.avoided = fields.flag_or("avoided", false);
    link_ids_.emplace(std::pair(out.from, out.to), LinkId(static_cast<std::uint32_t>(plan_.links.size())));
    plan_.links.push_back(out);
  }

  static Duration latency(const Fields& fields, std::string_view key, double latency_ms) {
    if (latency_ms >= 0.0 && latency_ms <= kMaxLatencyMs) return from_seconds(latency_ms / 1e3);
    fields.fail(key, fmt::format("is not in 0 to {}", kMaxLatencyMs));
    return Duration(0);
  }

  // One bound for each member, null for none.
  static std::vector<Duration> latencies(const Fields& fields, std::string_view key) {
    std::vector<Duration> out;
    fields.each(key, [&](const Json& entry, const std::string&) {
      if (!entry.is_null() && !entry.is_number()) {
        fields.fail(key, "has an entry that is neither a number nor null");
        return;
      }
      out.push_back(entry.is_null() ? Duration::max() : latency(fields, key, entry.get<double>()));
    });
    return out;
  }

  void collective(const Json& item, std::string where) {
    const Fields fields(item, std::move(where), error_);
    PlanCollective out;
    out.id = id<CollectiveId>(fields, "id");
    out.tenant = fields.text("tenant");
    if (fields.has("group")) out.group = fields.text("group");
    const Result<CollectiveOp> op = parse_collective_op(fields.text("op"));
    if (op.is_ok()) {
      out.op = *op;
    } else {
      fields.fail("op", fmt::format("is not an operation: {}", op.status().message()));
    }
    out.weight = fields.number("weight");
    out.size_bytes = fields.count("bytes");
    out.rate_bps = fields.rate("rate_mbps");
    out.lp_rate_bps = fields.rate_or("lp_rate_mbps", out.rate_bps);
    out.bound_bps = fields.rate("bound_mbps");
    out.completion_seconds = fields.open_number("completion_seconds");
    out.cost_usd_per_hour = fields.number_or("cost_usd_per_hour", 0.0);
    ids<SessionId>(fields, "sessions", [&](SessionId session) { out.sessions.push_back(session); });
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
    if (fields.has("codes")) {
      fields.each("codes", [&](const Json& entry, std::string place) {
        out.codes.push_back(code(Fields(entry, std::move(place), error_)));
      });
    }
    if (const Status followed = check_codes(out); !followed.is_ok()) fields.fail("codes", followed.message());
    if (fields.has("max_latency_ms")) out.max_latency = latencies(fields, "max_latency_ms");
    plan_.sessions.push_back(std::move(out));
  }

  PlanStream stream(const Fields& fields) {
    PlanStream out;
    out.rate_bps = fields.rate("rate_mbps");
    if (fields.flag("coded")) out.coded = code_part(fields);
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

  PlanCodePart code_part(const Fields& fields) {
    PlanCodePart out;
    out.code = static_cast<std::uint32_t>(small_count(fields, "code"));
    out.origin = known_node(fields, "origin");
    fields.each("adds", [&](const Json& entry, const std::string&) {
      if (!entry.is_array() || entry.size() != 2 || !entry[1].is_number()) {
        fields.fail("adds", "has an entry that is not a stream and a factor");
        return;
      }
      out.terms.emplace_back(stream_index(fields, "adds", entry[0]), entry[1].get<double>());
    });
    out.row = numbers(fields, "row");
    if (fields.has("byte_factors")) out.byte_factors = numbers(fields, "byte_factors");
    if (fields.has("byte_row")) out.byte_row = numbers(fields, "byte_row");
    return out;
  }

  PlanCode code(const Fields& fields) {
    PlanCode out;
    const std::optional<FieldKind> field = field_kind(fields.text("field"));
    if (!field) fields.fail("field", "is not gf256, gf65536 or float32");
    out.field = field.value_or(FieldKind::kGf256);
    out.blocks = static_cast<std::uint32_t>(small_count(fields, "blocks"));
    if (fields.has("redundancy"))
      out.redundancy = static_cast<std::uint32_t>(small_count(fields, "redundancy"));
    out.rate_bps = fields.rate("rate_mbps");
    fields.each("sinks", [&](const Json& entry, std::string place) {
      const Fields of(entry, std::move(place), error_);
      PlanCode::Sink& sink = out.sinks.emplace_back();
      sink.member = known_node(of, "member");
      of.each("streams", [&](const Json& index, const std::string&) {
        sink.streams.push_back(stream_index(of, "streams", index));
      });
      sink.inverse = rows(of, "inverse");
      if (of.has("byte_inverse")) sink.byte_inverse = rows(of, "byte_inverse");
    });
    return out;
  }

  static std::vector<std::vector<double>> rows(const Fields& fields, std::string_view key) {
    std::vector<std::vector<double>> values;
    fields.each(key, [&](const Json& row, const std::string&) {
      if (!row.is_array() || !std::ranges::all_of(row, [](const Json& value) { return value.is_number(); })) {
        fields.fail(key, "has an entry that is not a row of numbers");
        return;
      }
      values.push_back(row.get<std::vector<double>>());
    });
    return values;
  }

  std::vector<double> numbers(const Fields& fields, std::string_view key) {
    std::vector<double> values;
    fields.each(key, [&](const Json& entry, const std::string&) {
      if (!entry.is_number()) return fields.fail(key, "has an entry that is not a number");
      values.push_back(entry.get<double>());
    });
    return values;
  }

  // Of streams and codes there are no more.
  static constexpr std::uint64_t kMostStreams = 65'535;
  std::uint64_t small_count(const Fields& fields, std::string_view key) {
    const std::uint64_t count = fields.count(key);
    if (count > kMostStreams) fields.fail(key, fmt::format("is more than {}", kMostStreams));
    return std::min(count, kMostStreams);
  }

  StreamIndex stream_index(const Fields& fields, std::string_view key, const Json& value) {
    const bool is_index = value.is_number_unsigned() && value.get<std::uint64_t>() <= kMostStreams;
    if (!is_index) fields.fail(key, "has an entry that is no number of a stream");
    return StreamIndex(is_index ? value.get<std::uint16_t>() : 0);
  }

  // Collectives come before sessions, and a pair may come later in the list.
  void check_sessions(const Fields& fields) {
    for (const PlanSession& session : plan_.sessions) sessions_.insert(session.id);
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) {
      for (const SessionId session : plan_.collectives[c].sessions) {
        if (!sessions_.contains(session)) {
          fields.fail(fmt::format("collectives[{}].sessions", c),
                      fmt::format("names {}, which is not a session", session.value()));
        }
      }
    }
    for (std::size_t s = 0; s < plan_.sessions.size(); ++s) {
      const std::optional<SessionId>& pair = plan_.sessions[s].pair;
      if (pair.has_value() && !sessions_.contains(*pair)) {
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
    if (fields.has("levels")) {
      fields.each("levels", [&](const Json& entry, std::string place) {
        plan_.certificate.levels.push_back(read_level(Fields(entry, std::move(place), error_)));
      });
    }
    plan_.certificate.cost_bound_usd_per_hour = fields.optional_number("cost_bound_usd_per_hour");
  }

  PlanLevel read_level(const Fields& fields) {
    PlanLevel out;
    out.bound_bps = fields.rate("bound_mbps");
    ids<CollectiveId>(fields, "collectives", [&](CollectiveId id) {
      if (plan_.find_collective(id) == nullptr) not_there(fields, "collectives", id.value(), "collective");
      out.collectives.push_back(id);
    });
    fields.each("links", [&](const Json& entry, const std::string&) {
      if (!is_row(entry, 3)) {
        fields.fail("links", "has an entry that is not two nodes and a length");
        return;
      }
      const NodeId from = known_node(entry[0], fields, "links");
      const auto found = link_ids_.find(std::pair(from, known_node(entry[1], fields, "links")));
      if (found == link_ids_.end()) {
        fields.fail("links",
                    fmt::format("names {} -> {}, which is not a link", text_of(entry[0]), text_of(entry[1])));
        return;
      }
      out.links.emplace_back(found->second, entry[2].get<double>());
    });
    out.egress = node_lengths(fields, "egress");
    out.ingress = node_lengths(fields, "ingress");
    out.budget = fields.number_or("budget", 0.0);
    fields.each("packings", [&](const Json& entry, std::string place) {
      packings(Fields(entry, std::move(place), error_), out.packings);
    });
    return out;
  }

  static bool is_row(const Json& entry, std::size_t size) {
    return entry.is_array() && entry.size() == size && entry[size - 1].is_number();
  }

  static std::string text_of(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  std::vector<std::pair<NodeId, double>> node_lengths(const Fields& fields, std::string_view key) {
    std::vector<std::pair<NodeId, double>> out;
    fields.each(key, [&](const Json& entry, const std::string&) {
      if (!is_row(entry, 2)) {
        fields.fail(key, "has an entry that is not a node and a length");
        return;
      }
      out.emplace_back(known_node(entry[0], fields, key), entry[1].get<double>());
    });
    return out;
  }

  // One entry of the file stands for a packing of each of its sessions.
  void packings(const Fields& fields, std::vector<PlanPacking>& out) {
    PlanPacking packing;
    std::size_t nodes = 0;
    fields.each("cuts", [&](const Json& entry, std::string place) {
      const Fields cut(entry, std::move(place), error_);
      packing.cuts.push_back({known_nodes(cut, "far_side"), cut.number("length")});
      nodes += packing.cuts.back().far_side.size() + 1;
    });
    ids<SessionId>(fields, "sessions", [&](SessionId id) {
      if (!sessions_.contains(id)) not_there(fields, "sessions", id.value(), "session");
      if (nodes > kMaxPackedNodes - packed_nodes_) {
        fields.fail("sessions", fmt::format("brings the nodes of all cuts over {}", kMaxPackedNodes));
        return;
      }
      packed_nodes_ += nodes;
      packing.session = id;
      out.push_back(packing);
    });
  }

  static void not_there(const Fields& fields, std::string_view key, std::uint32_t id, std::string_view what) {
    fields.fail(key, fmt::format("names {}, which is not a {}", id, what));
  }

  void headroom(const Json& item) {
    const Fields fields(item, "headroom", error_);
    plan_.headroom = PlanHeadroom{fields.number("deviations"), fields.rate("nominal_min_rate_mbps"),
                                  fields.rate("nominal_total_rate_mbps")};
  }

  void changes(const Fields& fields) {
    plan_.changes.emplace();
    fields.each("changes", [&](const Json& entry, std::string place) {
      const Fields change(entry, std::move(place), error_);
      PlanChange out{id<CollectiveId>(change, "collective"), PlanChange::Kind::kJoined,
                     change.rate("rate_before_mbps"), change.rate("rate_after_mbps")};
      const std::string kind = change.text("kind");
      bool known = false;
      for (const PlanChange::Kind candidate :
           {PlanChange::Kind::kJoined, PlanChange::Kind::kLeft, PlanChange::Kind::kFaster,
            PlanChange::Kind::kSlower, PlanChange::Kind::kRerouted}) {
        if (kind != to_string(candidate)) continue;
        out.kind = candidate;
        known = true;
      }
      if (!known) {
        change.fail("kind", fmt::format("is \"{}\", not joined, left, faster, slower or rerouted", kind));
      }
      plan_.changes->push_back(out);
    });
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
