#include "store/postgres_store.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "square/clock.h"
#include "store/holder.h"
#include "store/postgres.h"

namespace square::store {
namespace {

constexpr std::int64_t kLeaseMilliseconds =
    std::chrono::duration_cast<std::chrono::milliseconds>(kLeaseTime).count();

// Two processes that begin at once: one makes the tables.
constexpr const char* kLockMaking = "SELECT pg_advisory_xact_lock(1397838676)";  // "SQST"
constexpr const char* kMakeRecord =
    "CREATE TABLE IF NOT EXISTS square_record(key bytea PRIMARY KEY, value bytea NOT NULL)";
constexpr const char* kMakeLead =
    "CREATE TABLE IF NOT EXISTS square_lead(one bigint PRIMARY KEY CHECK (one = 1), version bigint NOT NULL, "
    "store bigint NOT NULL, term bigint NOT NULL, writes bigint NOT NULL, expires timestamptz NOT NULL, "
    "process bigint NOT NULL, started bigint NOT NULL, place bytea NOT NULL, host bytea NOT NULL)";
constexpr const char* kLead =
    "SELECT version, store, term, (expires <= clock_timestamp())::int::bigint, process, started, place, host "
    "FROM square_lead FOR UPDATE";
constexpr const char* kTake =
    "INSERT INTO square_lead VALUES (1, $1::bigint, $2::bigint, $3::bigint, 0, "
    "clock_timestamp() + $4::bigint * interval '1 millisecond', $5::bigint, $6::bigint, $7::bytea, "
    "$8::bytea) ON CONFLICT (one) DO UPDATE SET version = excluded.version, term = excluded.term, writes = "
    "0, "
    "expires = excluded.expires, "
    "process = excluded.process, started = excluded.started, place = excluded.place, host = excluded.host";
constexpr const char* kRenew =
    "UPDATE square_lead SET expires = clock_timestamp() + $2::bigint * interval '1 millisecond', "
    "writes = writes + $3::bigint WHERE term = $1::bigint";
constexpr const char* kEnd = "UPDATE square_lead SET expires = clock_timestamp() WHERE term = $1::bigint";

struct Lease {
  std::int64_t version = store_versions().newest;
  StoreId store = 0;
  std::uint64_t term = 0;
  bool has_expired = true;
  Holder holder;
};

Result<Lease> read_lease(PostgresConnection& database) {
  Lease lease;
  SQUARE_RETURN_IF_ERROR(database
                             .run(kLead, {},
                                  [&](const PostgresConnection::Row& row) {
                                    lease.version = row.number(0);
                                    lease.store = static_cast<StoreId>(row.number(1));
                                    lease.term = static_cast<std::uint64_t>(row.number(2));
                                    lease.has_expired = row.number(3) != 0;
                                    lease.holder = {row.number(4), row.number(5), row.bytes(6), row.bytes(7)};
                                  })
                             .status());
  return lease;
}

// Takes hold once nobody else has it. Precondition: a transaction. `lease` is who has it then.
Result<bool> take_lease(PostgresConnection& database, Lease& lease) {
  SQUARE_RETURN_IF_ERROR(database.run(kLockMaking).status());
  SQUARE_RETURN_IF_ERROR(database.run(kMakeRecord).status());
  SQUARE_RETURN_IF_ERROR(database.run(kMakeLead).status());
  SQUARE_ASSIGN_OR_RETURN(lease, read_lease(database));
  SQUARE_RETURN_IF_ERROR(check_version(database.name(), lease.version));
  if (!lease.has_expired && !has_ended(lease.holder)) return false;
  if (lease.term == 0) {
    std::random_device device;
    lease.store = (StoreId{device()} << 32U) | device();
  }
  ++lease.term;
  lease.holder = this_process();
  SQUARE_RETURN_IF_ERROR(
      database
          .run(kTake, {std::int64_t{store_versions().newest}, static_cast<std::int64_t>(lease.store),
                       static_cast<std::int64_t>(lease.term), kLeaseMilliseconds, lease.holder.process,
                       lease.holder.started, lease.holder.place, lease.holder.host})
          .status());
  return true;
}

Result<Lease> hold_lease(PostgresConnection& database, const std::stop_token& stop) {
  for (Duration waited{0};; waited += kHolderWatchStep) {
    Lease lease;
    bool held = false;
    SQUARE_RETURN_IF_ERROR(database.transact([&]() -> Status {
      SQUARE_ASSIGN_OR_RETURN(held, take_lease(database, lease));
      return {};
    }));
    if (held) return lease;
    if (stop.stop_requested()) return cancelled("nobody waits for the store any more");
    if (waited > kLeaseTime) {
      return already_exists(
          fmt::format("another controller, process {} on {}, has the store {}; stop that one or name another",
                      lease.holder.process, lease.holder.host, database.name()));
    }
    std::this_thread::sleep_for(kHolderWatchStep);
  }
}

class PostgresStore final : public Store {
 public:
  PostgresStore(PostgresConnection database, const Lease& lease)
      : database_(std::move(database)), id_(lease.store), term_(lease.term) {
    keeper_ = std::thread([this] { keep(); });
  }

  ~PostgresStore() override {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
      closing_.notify_all();
    }
    keeper_.join();
    // The next need not wait. Where this fails it finds out by itself.
    if (!database_.is_broken()) static_cast<void>(database_.run(kEnd, {static_cast<std::int64_t>(term_)}));
  }

  [[nodiscard]] StoreId id() const override { return id_; }
  [[nodiscard]] std::uint64_t term() const override { return term_; }

  Result<std::map<std::string, std::string>> read() override {
    const std::lock_guard lock(mutex_);
    SQUARE_RETURN_IF_ERROR(connect());
    std::map<std::string, std::string> records;
    SQUARE_RETURN_IF_ERROR(
        database_
            .run("SELECT key, value FROM square_record", {},
                 [&](const PostgresConnection::Row& row) { records.emplace(row.bytes(0), row.bytes(1)); })
            .status());
    return records;
  }

  Status write(const std::vector<Write>& writes) override {
    const std::lock_guard lock(mutex_);
    SQUARE_RETURN_IF_ERROR(connect());
    bool is_in_doubt = false;
    const Status written = database_.transact([&] { return apply(writes); }, &is_in_doubt);
    if (is_in_doubt) return settle(written);
    if (written.is_ok()) ++writes_;
    return written;
  }

 private:
  // Over another connection, where the one before broke.
  Status connect() {
    if (is_given_up_) return taken();
    return database_.is_broken() ? database_.reconnect() : Status();
  }

  [[nodiscard]] Status taken() const {
    return failed_precondition(fmt::format(
        "{} the store {}: this one had term {}",
        is_given_up_ ? "it is not known what was written last to" : "another controller has taken over",
        database_.name(), term_));
  }

  Status renew(std::int64_t writes) {
    SQUARE_ASSIGN_OR_RETURN(
        const std::int64_t changed,
        database_.run(kRenew, {static_cast<std::int64_t>(term_), kLeaseMilliseconds, writes}));
    return changed == 1 ? Status() : taken();
  }

  Status apply(const std::vector<Write>& writes) {
    SQUARE_RETURN_IF_ERROR(renew(1));
    for (const Write& one : writes) {
      const auto done = one.value
                            ? database_.run(
                                  "INSERT INTO square_record VALUES ($1::bytea, $2::bytea) "
                                  "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                                  {one.key, *one.value})
                            : database_.run("DELETE FROM square_record WHERE key = $1::bytea", {one.key});
      SQUARE_RETURN_IF_ERROR(done.status());
    }
    return {};
  }

  // The connection broke at a commit: the count of writes says whether it was.
  Status settle(const Status& broken) {
    std::int64_t writes = -1;
    Status asked = database_.reconnect();
    if (asked.is_ok()) {
      asked = database_
                  .run("SELECT writes FROM square_lead WHERE term = $1::bigint FOR UPDATE",
                       {static_cast<std::int64_t>(term_)},
                       [&](const PostgresConnection::Row& row) { writes = row.number(0); })
                  .status();
    }
    if (asked.is_ok() && writes == writes_ + 1) {
      ++writes_;
      return {};
    }
    if (asked.is_ok() && writes == writes_) return broken;
    is_given_up_ = true;
    return taken();
  }

  void keep() {
    std::unique_lock lock(mutex_);
    HeldLease lease(steady_clock().now());
    while (!closing_.wait_for(lock, kLeaseBeat, [this] { return is_closing_; })) {
      const TimePoint begun = steady_clock().now();
      Status kept = connect();
      if (kept.is_ok()) kept = renew(0);
      if (!kept.is_ok()) log(LogLevel::kWarning, "store", "{}", kept.message());
      const Hold hold = lease.note(kept, begun, steady_clock().now());
      note_hold(hold);
      if (hold == Hold::kTaken) return;
    }
  }

  std::mutex mutex_;
  PostgresConnection database_;  // under the mutex
  const StoreId id_;
  const std::uint64_t term_;
  std::int64_t writes_ = 0;  // that were committed in this term
  bool is_given_up_ = false;
  bool is_closing_ = false;
  std::condition_variable closing_;
  std::thread keeper_;
};

}  // namespace

bool is_postgres_address(const std::string& address) {
  return address.starts_with("postgresql://") || address.starts_with("postgres://");
}

Result<std::unique_ptr<Store>> open_postgres_store(const std::string& address, const std::stop_token& stop) {
  SQUARE_ASSIGN_OR_RETURN(PostgresConnection database, PostgresConnection::open(address, kDatabasePatience));
  SQUARE_ASSIGN_OR_RETURN(const Lease lease, hold_lease(database, stop));
  return std::unique_ptr<Store>(std::make_unique<PostgresStore>(std::move(database), lease));
}

}  // namespace square::store
