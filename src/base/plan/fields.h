// The members of every struct of a plan, listed once: what JSON, a node's part and Python call each. The JSON
// reader and writer, the parts of nodes, the Python classes and same_fields() all follow these lists.
// A member that its list leaves out does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "square/plan.h"

namespace square::plan_fields {

// How JSON says a number.
enum class Unit {
  kPlain,
  kRate,  // Mbit/s, null for infinite
  kOpen,  // null for infinite
  kHex,
};

enum class Presence {
  kRequired,
  kOptional,       // older releases do not write it
  kUnlessDefault,  // left out where it is the default
};

// A member's key in JSON, in the object of its struct.
struct JsonKey {
  std::string_view key;
  Unit unit = Unit::kPlain;
  Presence presence = Presence::kRequired;
  // The id must be that of a collective of the plan.
  bool refers = false;

  [[nodiscard]] constexpr JsonKey optional() const { return {key, unit, Presence::kOptional, refers}; }
  [[nodiscard]] constexpr JsonKey unless_default() const {
    return {key, unit, Presence::kUnlessDefault, refers};
  }
};
constexpr JsonKey json(std::string_view key) { return {key}; }
constexpr JsonKey rate(std::string_view key) { return {key, Unit::kRate}; }
constexpr JsonKey open(std::string_view key) { return {key, Unit::kOpen}; }
constexpr JsonKey hex(std::string_view key) { return {key, Unit::kHex}; }
constexpr JsonKey collective(std::string_view key) { return {key, Unit::kPlain, Presence::kRequired, true}; }

// A member's attribute in Python, and its docstring.
struct Attribute {
  const char* name;
  const char* about = "";
};
constexpr Attribute python(const char* name, const char* about = "") { return {name, about}; }

// Said of a border that the member does not cross.
struct Nowhere {};
inline constexpr Nowhere kNowhere{};
// Said where the members of the value are fields of the struct that holds it.
struct Inline {};
inline constexpr Inline kInline{};

// The functions that protobuf generates for a field, for any message that has it. This folder does not know
// the messages of src/controller; a message without the field does not compile there.
template <typename Get, typename Set, typename Mutable, typename Has>
struct PartName {
  Get get;
  Set set;
  Mutable mutable_of;
  Has has;
};
template <typename Get, typename Set, typename Mutable, typename Has>
constexpr PartName<Get, Set, Mutable, Has> part_name(Get get, Set set, Mutable mutable_of, Has has) {
  return {get, set, mutable_of, has};
}
#define SQUARE_PART(name)                                                       \
  part_name([](const auto& record) -> decltype(auto) { return record.name(); }, \
            [](auto& record, const auto& value) { record.set_##name(value); },  \
            [](auto& record) { return record.mutable_##name(); },               \
            [](const auto& record) -> decltype(record.has_##name()) { return record.has_##name(); })

// Pairs that are two repeated fields.
template <typename First, typename Second>
struct PartPair {
  First first;
  Second second;
};
template <typename First, typename Second>
constexpr PartPair<First, Second> part_pair(First first, Second second) {
  return {first, second};
}

template <typename Struct, typename Value, typename Json, typename Part, typename Python>
struct Field {
  using value_type = Value;

  Value Struct::*member;
  Json json;
  Part part;
  Python python;
};
template <typename Struct, typename Value, typename Json, typename Part, typename Python>
constexpr Field<Struct, Value, Json, Part, Python> field(Value Struct::*member, Json json, Part part,
                                                         Python python) {
  return {member, json, part, python};
}

// The fields of a struct, in the order of its JSON. Another type has none.
template <typename Struct>
inline constexpr auto kFields = nullptr;

template <>
inline constexpr auto kFields<Quota> = std::tuple{
    field(&Quota::operations, json("open_operations").unless_default(), SQUARE_PART(open_operations),
          python("open_operations", "Calls that may be under way on a node at once; None: no limit.")),
    field(&Quota::bytes, json("open_bytes").unless_default(), SQUARE_PART(open_bytes),
          python("open_bytes", "The same in bytes.")),
};

template <>
inline constexpr auto kFields<PlanPath> = std::tuple{
    field(&PlanPath::member, json("member"), kNowhere, python("member")),
    field(&PlanPath::nodes, json("nodes"), kNowhere, python("nodes")),
    field(&PlanPath::rate_bps, rate("rate_mbps"), kNowhere, python("rate_bps")),
};

template <>
inline constexpr auto kFields<PlanCodePart> = std::tuple{
    field(&PlanCodePart::code, json("code"), SQUARE_PART(code),
          python("code", "Position of its code in the session's codes.")),
    field(&PlanCodePart::origin, json("origin"), SQUARE_PART(origin),
          python("origin", "Where it begins: the root, or where a coded one is added up.")),
    field(&PlanCodePart::terms, json("adds"), part_pair(SQUARE_PART(terms), SQUARE_PART(factors)),
          python("adds", "The session's streams that are added at its origin, each with its factor.")),
    field(&PlanCodePart::row, json("row"), SQUARE_PART(row),
          python("row", "Which sum of a generation's blocks it carries.")),
    field(&PlanCodePart::byte_factors, json("byte_factors").unless_default(), SQUARE_PART(byte_factors),
          python("byte_factors",
                 "Of a code of floats: the factors over bytes, for blocks that floats would spoil.")),
    field(&PlanCodePart::byte_row, json("byte_row").unless_default(), SQUARE_PART(byte_row),
          python("byte_row", "Of a code of floats: its row over bytes.")),
};

// JSON and Python have `coded` as true or false, and the members of the part beside it.
template <>
inline constexpr auto kFields<PlanStream> = std::tuple{
    field(&PlanStream::links, json("links"), SQUARE_PART(ends), python("links")),
    field(&PlanStream::rate_bps, rate("rate_mbps"), SQUARE_PART(rate_bps), python("rate_bps")),
    field(&PlanStream::coded, json("coded"), SQUARE_PART(coded), python("coded")),
    field(&PlanStream::latency, kNowhere, SQUARE_PART(latency_nanoseconds), kNowhere),
    field(&PlanStream::is_spare, kNowhere, SQUARE_PART(is_spare), kNowhere),
};

template <>
inline constexpr auto kFields<PlanCode::Sink> = std::tuple{
    field(&PlanCode::Sink::member, json("member"), SQUARE_PART(member), python("member")),
    field(&PlanCode::Sink::streams, json("streams"), SQUARE_PART(streams), python("streams")),
    field(&PlanCode::Sink::inverse, json("inverse"), SQUARE_PART(inverse), python("inverse")),
    field(&PlanCode::Sink::byte_inverse, json("byte_inverse").unless_default(), kNowhere,
          python("byte_inverse", "Of a code of floats: that of its rows over bytes.")),
};

template <>
inline constexpr auto kFields<PlanCode> = std::tuple{
    field(&PlanCode::field, json("field"), SQUARE_PART(field), python("field")),
    field(&PlanCode::blocks, json("blocks"), SQUARE_PART(blocks), python("blocks")),
    field(&PlanCode::redundancy, json("redundancy").unless_default(), SQUARE_PART(redundancy),
          python("redundancy", "So many of the streams that come to a member may be lost.")),
    field(&PlanCode::rate_bps, rate("rate_mbps"), SQUARE_PART(rate_bps), python("rate_bps")),
    field(&PlanCode::sinks, json("sinks"), SQUARE_PART(sinks), python("sinks")),
};

template <>
inline constexpr auto kFields<PlanSession> = std::tuple{
    field(&PlanSession::id, json("id"), SQUARE_PART(id), python("id")),
    field(&PlanSession::collective, collective("collective"), SQUARE_PART(collective), python("collective")),
    field(&PlanSession::kind, json("kind"), SQUARE_PART(kind), python("kind")),
    field(&PlanSession::root, json("root"), SQUARE_PART(root), python("root")),
    field(&PlanSession::members, json("members"), SQUARE_PART(members), python("members")),
    field(&PlanSession::offset_bytes, json("offset_bytes"), SQUARE_PART(offset_bytes),
          python("offset_bytes")),
    field(&PlanSession::size_bytes, json("size_bytes"), SQUARE_PART(size_bytes), python("size_bytes")),
    field(&PlanSession::pair, json("pair"), SQUARE_PART(pair), python("pair")),
    field(&PlanSession::lp_rate_bps, rate("lp_rate_mbps"), kNowhere, python("lp_rate_bps")),
    field(&PlanSession::rate_bps, rate("rate_mbps"), SQUARE_PART(rate_bps), python("rate_bps")),
    field(&PlanSession::paths, json("paths"), kNowhere, python("paths")),
    field(&PlanSession::streams, json("streams"), SQUARE_PART(streams), python("streams")),
    field(&PlanSession::codes, json("codes").unless_default(), SQUARE_PART(codes), python("codes")),
    field(&PlanSession::max_latency, json("max_latency_ms").unless_default(), kNowhere,
          python("max_latency")),
    field(&PlanSession::block_limit_bytes, kNowhere, SQUARE_PART(block_limit_bytes), kNowhere),
};

template <>
inline constexpr auto kFields<PlanCollective> = std::tuple{
    field(&PlanCollective::id, json("id"), SQUARE_PART(id), python("id")),
    field(&PlanCollective::tenant, json("tenant"), SQUARE_PART(tenant), python("tenant")),
    field(&PlanCollective::op, json("op"), SQUARE_PART(op), python("op")),
    field(&PlanCollective::weight, json("weight"), SQUARE_PART(weight), python("weight")),
    field(&PlanCollective::size_bytes, json("bytes"), SQUARE_PART(size_bytes), python("size_bytes")),
    field(&PlanCollective::lp_rate_bps, rate("lp_rate_mbps").optional(), kNowhere, python("lp_rate_bps")),
    field(&PlanCollective::rate_bps, rate("rate_mbps"), SQUARE_PART(rate_bps), python("rate_bps")),
    field(&PlanCollective::bound_bps, rate("bound_mbps"), kNowhere, python("bound_bps")),
    field(&PlanCollective::completion_seconds, open("completion_seconds"), kNowhere,
          python("completion_seconds")),
    field(&PlanCollective::cost_usd_per_hour, json("cost_usd_per_hour").optional(), kNowhere,
          python("cost_usd_per_hour")),
    field(&PlanCollective::sessions, json("sessions"), kNowhere, python("sessions")),
    field(&PlanCollective::group, json("group").unless_default(), SQUARE_PART(group),
          python("group", "The group of processes that calls it; empty where a scenario asks for it.")),
    field(&PlanCollective::since, kNowhere, SQUARE_PART(since), kNowhere),
};

template <>
inline constexpr auto kFields<PlanTenant> = std::tuple{
    field(&PlanTenant::name, json("name"), SQUARE_PART(name), python("name")),
    field(&PlanTenant::weight, json("weight"), SQUARE_PART(weight), python("weight")),
    field(&PlanTenant::rate_bps, rate("rate_mbps"), SQUARE_PART(rate_bps), python("rate_bps")),
    field(&PlanTenant::open, kInline, kInline, kInline),
};

template <>
inline constexpr auto kFields<PlanNode> = std::tuple{
    field(&PlanNode::name, json("name"), SQUARE_PART(name), python("name")),
    field(&PlanNode::egress_bps, rate("egress_mbps"), SQUARE_PART(egress_bps), python("egress_bps")),
    field(&PlanNode::ingress_bps, rate("ingress_mbps"), SQUARE_PART(ingress_bps), python("ingress_bps")),
    field(&PlanNode::relays, json("relays").unless_default(), SQUARE_PART(relays), python("relays")),
};

template <>
inline constexpr auto kFields<PlanLink> = std::tuple{
    field(&PlanLink::from, json("from"), SQUARE_PART(from), python("from_node")),
    field(&PlanLink::to, json("to"), SQUARE_PART(to), python("to_node")),
    field(&PlanLink::capacity_bps, rate("capacity_mbps"), SQUARE_PART(capacity_bps), python("capacity_bps")),
    field(&PlanLink::load_bps, rate("load_mbps"), SQUARE_PART(load_bps), python("load_bps")),
    field(&PlanLink::latency, json("latency_ms"), SQUARE_PART(latency_nanoseconds), python("latency")),
    field(&PlanLink::price_usd_per_gb, json("price_usd_per_gb").optional(), kNowhere,
          python("price_usd_per_gb")),
    field(&PlanLink::avoided, json("avoided").unless_default(), SQUARE_PART(avoided), python("avoided")),
    field(&PlanLink::most_bps, kNowhere, kNowhere, kNowhere),
    field(&PlanLink::pace_bps, kNowhere, SQUARE_PART(pace_bps), kNowhere),
};

template <>
inline constexpr auto kFields<PlanCut> = std::tuple{
    field(&PlanCut::collective, collective("collective"), kNowhere, python("collective")),
    field(&PlanCut::source_side, json("source_side"), kNowhere, python("source_side")),
    field(&PlanCut::bound_bps, rate("bound_mbps"), kNowhere, python("bound_bps")),
};

template <>
inline constexpr auto kFields<PlanPacking::Cut> = std::tuple{
    field(&PlanPacking::Cut::far_side, json("far_side"), kNowhere, python("far_side")),
    field(&PlanPacking::Cut::length, json("length"), kNowhere, python("length")),
};

// In JSON neighbours with the same cuts share one object, which lists their sessions.
template <>
inline constexpr auto kFields<PlanPacking> = std::tuple{
    field(&PlanPacking::session, json("sessions"), kNowhere, python("session")),
    field(&PlanPacking::cuts, json("cuts"), kNowhere, python("cuts")),
};

template <>
inline constexpr auto kFields<PlanLevel> = std::tuple{
    field(&PlanLevel::bound_bps, rate("bound_mbps"), kNowhere, python("bound_bps")),
    field(&PlanLevel::collectives, collective("collectives"), kNowhere, python("collectives")),
    field(&PlanLevel::links, json("links"), kNowhere, python("links")),
    field(&PlanLevel::egress, json("egress"), kNowhere, python("egress")),
    field(&PlanLevel::ingress, json("ingress"), kNowhere, python("ingress")),
    field(&PlanLevel::budget, json("budget").optional(), kNowhere, python("budget")),
    field(&PlanLevel::packings, json("packings"), kNowhere, python("packings")),
};

template <>
inline constexpr auto kFields<PlanCertificate> = std::tuple{
    field(&PlanCertificate::level_bound_bps, rate("level_bound_mbps"), kNowhere, python("level_bound_bps")),
    field(&PlanCertificate::cuts, json("cuts"), kNowhere, python("cuts")),
    field(&PlanCertificate::levels, json("levels").optional(), kNowhere, python("levels")),
    field(&PlanCertificate::cost_bound_usd_per_hour, json("cost_bound_usd_per_hour").optional(), kNowhere,
          python("cost_bound_usd_per_hour")),
};

template <>
inline constexpr auto kFields<PlanHeadroom> = std::tuple{
    field(&PlanHeadroom::deviations, json("deviations"), kNowhere, python("deviations")),
    field(&PlanHeadroom::nominal_min_rate_bps, rate("nominal_min_rate_mbps"), kNowhere,
          python("nominal_min_rate_bps")),
    field(&PlanHeadroom::nominal_total_rate_bps, rate("nominal_total_rate_mbps"), kNowhere,
          python("nominal_total_rate_bps")),
};

template <>
inline constexpr auto kFields<PlanChange> = std::tuple{
    field(&PlanChange::collective, json("collective"), kNowhere, python("collective")),
    field(&PlanChange::kind, json("kind"), kNowhere, python("kind")),
    field(&PlanChange::rate_before_bps, rate("rate_before_mbps"), kNowhere, python("rate_before_bps")),
    field(&PlanChange::rate_after_bps, rate("rate_after_mbps"), kNowhere, python("rate_after_bps")),
};

template <>
inline constexpr auto kFields<PlanOrigin> = std::tuple{
    field(&PlanOrigin::store, hex("store"), SQUARE_PART(store), kNowhere),
    field(&PlanOrigin::term, json("term"), SQUARE_PART(term), kNowhere),
};

// Its reader knows the node.
template <>
inline constexpr auto kFields<PlanPart> = std::tuple{
    field(&PlanPart::node, kNowhere, kNowhere, kNowhere),
    field(&PlanPart::next_collective, kNowhere, SQUARE_PART(next_collective), kNowhere),
    field(&PlanPart::next_session, kNowhere, SQUARE_PART(next_session), kNowhere),
};

// A node's part has the lists of nodes, links, tenants, collectives and sessions as records of their own.
template <>
inline constexpr auto kFields<Plan> = std::tuple{
    field(&Plan::epoch, json("epoch"), SQUARE_PART(epoch), python("epoch")),
    field(&Plan::origin, json("origin").unless_default(), kInline, kNowhere),
    field(&Plan::policy, json("policy"), SQUARE_PART(policy), python("policy")),
    field(&Plan::solve_seconds, json("solve_seconds"), kNowhere, python("solve_seconds")),
    field(&Plan::min_rate_bps, rate("min_rate_mbps"), kNowhere, python("min_rate_bps")),
    field(&Plan::total_rate_bps, rate("total_rate_mbps"), kNowhere, python("total_rate_bps")),
    field(&Plan::jain, json("jain"), kNowhere, python("jain")),
    field(&Plan::cost_usd_per_hour, json("cost_usd_per_hour").optional(), kNowhere,
          python("cost_usd_per_hour")),
    field(&Plan::budget_usd_per_hour, json("budget_usd_per_hour").optional(), kNowhere,
          python("budget_usd_per_hour")),
    field(&Plan::realised, json("realised").optional(), kNowhere, python("realised")),
    field(&Plan::provisional, json("provisional").unless_default(), SQUARE_PART(provisional),
          python("provisional")),
    field(&Plan::headroom, json("headroom").optional(), kNowhere, python("headroom")),
    field(&Plan::changes, json("changes").optional(), kNowhere, python("changes")),
    field(&Plan::tenants, json("tenants"), kNowhere, python("tenants")),
    field(&Plan::certificate, json("certificate"), kNowhere, python("certificate")),
    field(&Plan::collectives, json("collectives"), kNowhere, python("collectives")),
    field(&Plan::sessions, json("sessions"), kNowhere, python("sessions")),
    field(&Plan::nodes, json("nodes"), kNowhere, python("nodes")),
    field(&Plan::links, json("links"), kNowhere, python("links")),
    field(&Plan::part, kNowhere, kInline, kNowhere),
};

}  // namespace square::plan_fields
