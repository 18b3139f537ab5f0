// A store in one SQLite file.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "square/clock.h"
#include "store/store.h"

namespace square::store {

// Who holds the file says so this often. A holder whose process is known to have ended is followed at once;
// one that has said nothing for kHoldTime, while somebody waits for the file, too: it may be on another
// machine, or stopped.
inline constexpr Duration kHoldBeat = std::chrono::seconds(1);
inline constexpr Duration kHoldTime = std::chrono::seconds(3);
// Another process may be writing for so long.
inline constexpr Duration kBusyTime = std::chrono::seconds(2);

// Opens the file, or makes it, and takes hold of it. Blocks for kHoldTime and a little more at most. Errors,
// all with the path: ALREADY_EXISTS while another live process holds it, naming that; FAILED_PRECONDITION
// for one of a version that it does not take; INVALID_ARGUMENT for one that is no store; DATA_LOSS for a
// damaged one; UNAVAILABLE or RESOURCE_EXHAUSTED where it cannot be opened or written.
Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path, const std::stop_token& stop = {});

}  // namespace square::store
