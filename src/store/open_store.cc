#include <fmt/format.h>

#include "store/postgres_store.h"
#include "store/sqlite_store.h"
#include "store/store.h"

namespace square::store {

ProtocolVersions store_versions() { return versions_of_release(kOldestStore, kStoreVersion); }

Status check_version(const std::string& name, std::int64_t version) {
  const ProtocolVersions own = store_versions();
  if (version >= own.oldest && version <= own.newest) return {};
  return failed_precondition(fmt::format(
      "the store {} has version {}, and this release reads version {}; {}", name, version, to_string(own),
      version > own.newest
          ? "a later release has it: upgrade this controller"
          : "an earlier release wrote it: start a release between the two once, then this one"));
}

Result<std::unique_ptr<Store>> open_store(const std::string& place, const std::stop_token& stop) {
  if (place.empty()) return make_memory_store();
  return is_postgres_address(place) ? open_postgres_store(place, stop) : open_sqlite_store(place, stop);
}

}  // namespace square::store
