// A store in a PostgreSQL database: of an overlay whose controller may be replaced by one on another machine.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "square/clock.h"
#include "store/lease.h"
#include "store/store.h"

namespace square::store {

// No call of the database takes longer, but for several in a row where it is away.
inline constexpr Duration kDatabasePatience = std::chrono::seconds(5);

// "postgresql://..." or "postgres://...".
bool is_postgres_address(const std::string& address);

// Makes its tables, square_record and square_lead, where there are none, and takes hold of them: at once
// where who had them is known to have ended, else when the lease of that has. Blocks for kLeaseTime and a
// little more at most. Errors, all with the database: ALREADY_EXISTS while another live process holds it,
// naming that; FAILED_PRECONDITION for tables of a version that it does not take, or a user without the
// rights; UNAUTHENTICATED; UNAVAILABLE; those of PostgresConnection::open().
//
// Where the connection breaks as a write is committed, and the database cannot say in time whether it was,
// the store is given up: later writes are FAILED_PRECONDITION, as if another process had taken hold of it.
Result<std::unique_ptr<Store>> open_postgres_store(const std::string& address,
                                                   const std::stop_token& stop = {});

}  // namespace square::store
