#include "store/postgres_store.h"
#include "store/sqlite_store.h"
#include "store/store.h"

namespace square::store {

Result<std::unique_ptr<Store>> open_store(const std::string& place, const std::stop_token& stop) {
  if (place.empty()) return make_memory_store();
  return is_postgres_address(place) ? open_postgres_store(place, stop) : open_sqlite_store(place, stop);
}

}  // namespace square::store
