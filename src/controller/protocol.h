// What controller and client agree on beside the messages themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/protocol_versions.h"
#include "controller/went_on.h"
#include "square/block_sight.h"
#include "square/clock.h"
#include "square/controlled_node.h"
#include "square/finished_operations.h"
#include "square/group.h"
#include "square/identity.h"
#include "square/link_report.h"
#include "square/status.h"
#include "square/units.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Counts changes of the messages between nodes and controller that older ends do not understand.
// CONTRIBUTING.md says when it is raised, and when the oldest that is accepted may be.
inline constexpr std::uint32_t kControlProtocolVersion = 12;
inline constexpr std::uint32_t kOldestControlProtocol = 11;
// From this version on nodes say that a plan has come before they have installed it: Installed.moving. Older
// controllers would take it that the plan is installed.
inline constexpr std::uint32_t kMovingSince = 12;

// Who dials, where a controller that stands by may want to know.
inline constexpr const char* kNodeKey = "square-node-bin";

inline constexpr std::size_t kMaxNodeNameBytes = 256;
inline constexpr std::size_t kMaxAddressBytes = 512;
// Enough for the largest group: kMaxGroupMembers names of kMaxNodeNameBytes.
inline constexpr int kMaxRequestBytes = 32 << 20;
// Around a plan in a message: a signature, and the certificate of who has signed.
inline constexpr std::size_t kPlanEnvelopeBytes = std::size_t{16} << 10U;
// Errors travel in trailers, which gRPC limits to 8 KiB after percent-encoding.
inline constexpr std::size_t kMaxErrorBytes = 2048;
// Collectives that a node which leaves speaks of, and that the others hear of.
inline constexpr int kMaxFinishedCollectives = 16'384;
// What a node says of itself and of its use.
inline constexpr int kHeartbeatsPerLease = 4;
// Also where leases are long: heartbeats say what is used.
inline constexpr Duration kLongestBeat = std::chrono::seconds(1);
// Longer times are as good as this one, and can be added to any clock.
inline constexpr Duration kMaxWait = std::chrono::hours(24 * 30);

// Of this process.
ProtocolVersions control_versions();
void put_versions(v1::Hello& hello);
// The one that the node and this controller speak. Errors: FAILED_PRECONDITION where there is none.
Result<std::uint32_t> agree_on_version(const v1::Hello& hello);
// Controllers before version 12 say none.
std::uint32_t version_of(const v1::Welcome& welcome);

v1::RegisterGroupRequest to_message(const GroupSpec& group);
v1::Sights to_message(const std::vector<BlockSight>& sights);
// Without those that are none.
std::vector<BlockSight> from_message(const v1::Sights& message);
// Errors: INVALID_ARGUMENT for an unknown operation.
Result<GroupSpec> from_message(const v1::RegisterGroupRequest& message);

// Without the node and the time.
v1::RegroupRequest to_message(const RegroupRequest& request);
RegroupRequest from_message(const v1::RegroupRequest& message);

v1::WentOn to_message(const Continuation& one);
Continuation from_message(const v1::WentOn& message);

v1::MeasuredLink to_message(const LinkReport& report, TimePoint now);

v1::Heartbeat to_message(const NodeReport& report, TimePoint now);

v1::BrokenLinks to_message(const LinkTroubles& troubles, TimePoint now);

// Of those beyond kMaxFinishedCollectives nothing is said.
v1::Goodbye to_message(const FinishedOperations& finished);
// What was finished by a node that left in order; nothing of another.
std::optional<FinishedOperations> from_message(const v1::Gone& message);

// The collectives that are in no plan any more.
std::vector<CollectiveId> from_message(const v1::Unplanned& message);

v1::Revoked to_message(const std::vector<Revocation>& revoked);
// Names that are none are left out.
std::vector<Revocation> from_message(const v1::Revoked& message);

// Between 0 and kMaxWait.
Duration bounded(Duration wait);

// The wall clock, since 1970.
std::int64_t wall_nanoseconds();

}  // namespace square::controller
