// What must outlive its process: records under keys, in a file, a database or memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/protocol_versions.h"
#include "square/status.h"

namespace square::store {

// The version of a store that a controller has taken hold of, and the oldest that it takes. Values of records
// are messages, whose fields default: CONTRIBUTING.md says when each is raised.
inline constexpr std::uint32_t kStoreVersion = 1;
inline constexpr std::uint32_t kOldestStore = 1;
// Of this process.
ProtocolVersions store_versions();
// Errors: FAILED_PRECONDITION for a version that this process does not take.
Status check_version(const std::string& name, std::int64_t version);

// Drawn at random when the store is made.
using StoreId = std::uint64_t;

struct Write {
  std::string key;
  std::optional<std::string> value;  // nothing: the record goes
};

// What a process knows of its hold of a store.
enum class Hold {
  kOurs,
  kLate,   // not renewed in time: another process may have taken it
  kTaken,  // by another process, for good
};

// One process at a time holds a store. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;

  // Outlives the store.
  [[nodiscard]] std::shared_ptr<const std::atomic<Hold>> hold() const { return hold_; }

  [[nodiscard]] virtual StoreId id() const = 0;
  // Raised by every process that takes hold of the store, from 1.
  [[nodiscard]] virtual std::uint64_t term() const = 0;

  // All records. Blocks on the disk. Errors: DATA_LOSS where the file is damaged, UNAVAILABLE where it
  // cannot be read.
  virtual Result<std::map<std::string, std::string>> read() = 0;
  // All or nothing, and on the disk when it returns. Without any it only looks whether the store is still
  // held. Blocks on the disk. Errors: FAILED_PRECONDITION if another process has taken hold of the store,
  // from then on; RESOURCE_EXHAUSTED where the disk is full, UNAVAILABLE where it cannot be written.
  virtual Status write(const std::vector<Write>& writes) = 0;

 protected:
  void note_hold(Hold hold) { hold_->store(hold); }

 private:
  const std::shared_ptr<std::atomic<Hold>> hold_ = std::make_shared<std::atomic<Hold>>(Hold::kOurs);
};

// Forgets everything with its process.
std::unique_ptr<Store> make_memory_store();

// Where it is: "" in memory, "postgresql://..." in a database, else in an SQLite file of that path. Blocks,
// and errors: those of postgres_store.h and sqlite_store.h; CANCELLED once `stop` is requested.
Result<std::unique_ptr<Store>> open_store(const std::string& place, const std::stop_token& stop = {});

}  // namespace square::store
