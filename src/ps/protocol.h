// What masters, servers and workers agree on beside the messages themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/protocol_versions.h"
#include "square/clock.h"
#include "square/status.h"
#include "square/v1/parameter_server.pb.h"

namespace square::ps {

// Counts changes of the messages that older ends do not understand. CONTRIBUTING.md says when each is raised.
inline constexpr std::uint32_t kParameterServerProtocol = 1;
inline constexpr std::uint32_t kOldestParameterServerProtocol = 1;
// Of this process.
ProtocolVersions parameter_server_versions();
void put_versions(v1::PsHello& hello);

inline constexpr std::size_t kMaxMembers = 4096;
inline constexpr std::size_t kMaxTensors = 1'000'000;
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 42U;
inline constexpr std::uint64_t kMaxChunks = std::uint64_t{1} << 24U;
inline constexpr std::uint32_t kMaxLeaseRequest = 65'536;
inline constexpr std::size_t kMaxMemberNameBytes = 256;
// Of a hello, which the master keeps while its member is there: enough for a model of 200,000 tensors with
// names of 60 bytes, and the records of 16 versions.
inline constexpr std::size_t kMaxHelloBytes = std::size_t{16} << 20U;
// A server tells the master its newest versions, at most this many. The newest one that all servers have is
// one or two behind the newest of all.
inline constexpr int kMaxHeldVersions = 16;
// Names of snapshots sort as versions do up to this one.
inline constexpr std::uint64_t kMaxVersion = 999'999'999'999;
// Moves that a record remembers. Workers that are further behind count older ones as rounds.
inline constexpr int kMostMoves = 64;
// Of one push: more than any site trains on between two of them, and sums do not overflow.
inline constexpr std::uint64_t kMaxPushTokens = std::uint64_t{1} << 40U;
// A push counts for at most this many times the lower median of the tokens in its round: a worker's own word
// makes it no heavier. Sites differ in speed by less.
inline constexpr std::uint64_t kMostTimesMedian = 16;
// Members say something this many times in a lease, and so does the master: but more often than who waits for
// it loses patience.
inline constexpr int kBeatsPerLease = 8;
inline constexpr Duration kLongestBeat = std::chrono::milliseconds(400);
// A transfer that fails is begun again so often, over another line; then its push is skipped. A pull is never
// given up while worker and server live: it waits longer and longer.
inline constexpr int kTransferAttempts = 3;

// One attached line of a member to the master. Never used twice.
using PeerId = std::uint64_t;

v1::PsError to_message(const Status& status);
// A code that there is not counts as UNKNOWN.
Status from_message(const v1::PsError& message);

std::uint64_t elements_of(const v1::PsTensor& tensor);
std::uint64_t elements_of(const v1::PsModel& model);
// Errors: INVALID_ARGUMENT for no tensors, two of one name, a type that is not of floats, too many elements.
Status check_model(const v1::PsModel& model);
// What differs, by the first tensors that do; OK if nothing. INVALID_ARGUMENT.
Status compare_models(const v1::PsModel& given, const v1::PsModel& expected);

}  // namespace square::ps
