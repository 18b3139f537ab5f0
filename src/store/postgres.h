// A connection to PostgreSQL, with errors as Status: the only place that knows libpq.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "square/clock.h"
#include "square/status.h"
#include "store/sql_value.h"

struct pg_conn;
struct pg_result;

namespace square::store {

// Not thread-safe. Calls end within a few times `patience`, whatever the network does.
class PostgresConnection {
 public:
  // An address is what libpq takes: "postgresql://user@host:5432/database?sslmode=verify-full". Errors:
  // INVALID_ARGUMENT for one that is none; UNAUTHENTICATED; UNAVAILABLE.
  static Result<PostgresConnection> open(const std::string& address, Duration patience);
  PostgresConnection(PostgresConnection&&) noexcept = default;
  PostgresConnection& operator=(PostgresConnection&&) noexcept = default;

  // A row that a statement gave, of bigint, bytea and text columns.
  class Row {
   public:
    Row(const pg_result* result, int row) : result_(result), row_(row) {}
    [[nodiscard]] std::int64_t number(int column) const;
    [[nodiscard]] std::string bytes(int column) const;

   private:
    const pg_result* result_;
    int row_;
  };

  // Runs one statement, with values in place of $1::bigint or $1::bytea and so on, for each row of its
  // answer. Returns the rows that it changed. Errors: RESOURCE_EXHAUSTED for a full disk, FAILED_PRECONDITION
  // for what this user may not do, UNAVAILABLE for any other, each with the database and PostgreSQL's words.
  Result<std::int64_t> run(const char* statement, const std::vector<SqlValue>& values = {},
                           const std::function<void(const Row&)>& on_row = nullptr);
  // All of it or nothing: `body` between BEGIN and COMMIT, undone where either fails. Where the connection
  // breaks during COMMIT nobody knows: `is_in_doubt` is set then.
  Status transact(const std::function<Status()>& body, bool* is_in_doubt = nullptr);

  [[nodiscard]] bool is_broken() const;
  // Another connection to the same database. Errors: those of open().
  Status reconnect();
  // Without the password.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Close {
    void operator()(pg_conn* connection) const;
  };
  PostgresConnection(std::string address, Duration patience)
      : address_(std::move(address)), patience_(patience) {}
  [[nodiscard]] Status error(const char* sql_state, std::string_view words) const;

  std::string address_;
  Duration patience_{};
  std::string name_;
  std::unique_ptr<pg_conn, Close> connection_;
};

}  // namespace square::store
