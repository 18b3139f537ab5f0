#include "store/postgres_store.h"
#include "store/sqlite_store.h"
#include "store/store.h"

namespace square::store {

Result<std::unique_ptr<Store>> open_store(const std::string& place) {
  if (place.empty()) return make_memory_store();
  return is_postgres_address(place) ? open_postgres_store(place) : open_sqlite_store(place);
}

}  // namespace square::store
