// How a master of parameter servers makes its rounds: square/parameter_server.h.
#pragma once

#include <cstdint>
#include <optional>

#include "square/outer_optimizer.h"
#include "square/status.h"
#include "square/units.h"

namespace square::ps {

// How rounds are made.
struct TrainingOptions {
  // How many servers share a new model; training begins when they are there.
  std::uint32_t servers = 1;
  // Those that come later get their part of it. Otherwise they stand by.
  bool moves_shards = true;
  // A round begins when so many pushes are there, or one of every worker that lives.
  std::uint32_t quorum = 1;
  // From then on others may still join it for so long. None: a twentieth of the time between two pushes of a
  // worker, for that is what waiting may cost.
  std::optional<Duration> grace{};
  OuterOptions outer{};
  // What workers push: the way from their base (deltas), or their parameters.
  Basis basis = Basis::kBase;
  // Deltas travel in bfloat16.
  bool is_bfloat16 = false;
  // Parts of the data set that are given to workers one by one, and each counted once. 0: the workers see to
  // their data themselves.
  std::uint64_t chunks = 0;
  // Pushes from bases that are further behind are refused. None: they are taken.
  std::optional<std::uint64_t> max_staleness{};
  // Who is not heard of for so long is not there any more.
  Duration lease = std::chrono::seconds(5);
  // Workers that wait for a server that is silent for longer than this train on meanwhile.
  Duration patience = std::chrono::milliseconds(1500);
  // A step of a round that takes longer has failed.
  Duration step_timeout = std::chrono::minutes(10);
};
// Errors: INVALID_ARGUMENT with the field, its value and what may be.
Status check(const TrainingOptions& options);

}  // namespace square::ps
