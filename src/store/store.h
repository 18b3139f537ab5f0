// What must outlive its process: records under keys, in a file, a database or memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "square/status.h"

namespace square::store {

// Drawn at random when the store is made.
using StoreId = std::uint64_t;

struct Write {
  std::string key;
  std::optional<std::string> value;  // nothing: the record goes
};

// One process at a time holds a store. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;

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
};

// Forgets everything with its process.
std::unique_ptr<Store> make_memory_store();

// Where it is: "" in memory, "postgresql://..." in a database, else in an SQLite file of that path. Blocks,
// and errors: those of postgres_store.h and sqlite_store.h.
Result<std::unique_ptr<Store>> open_store(const std::string& place);

}  // namespace square::store
