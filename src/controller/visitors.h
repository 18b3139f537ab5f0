// The connections at a server's door: who may stay, by what is known of them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace square::controller {

// A connection is silent until it has said enough for an answer, then a stranger's until a call that was let
// in has come over it, then known. There are few places for each. Where they are taken the address with the
// most connections gives one up, its oldest, so that nobody's connections push out others'. Addresses of
// known connections have places of their own: a flood from elsewhere does not reach them. Bytes have to be
// explained, too: by messages that were heard, and by time, for what HTTP/2 needs beside them. Not
// thread-safe; knows no sockets.
class Visitors {
 public:
  using Key = int;  // of a connection, chosen by the caller
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kMaxSilent = 512;
  static constexpr std::size_t kMaxStrangers = 256;
  static constexpr std::chrono::seconds kStrangerTime{10};
  // Known connections of one caller.
  static constexpr std::size_t kMaxOfCaller = 64;
  // Addresses of which one was known lately.
  static constexpr std::size_t kMaxKnownHomes = 4'096;
  // Lines of one connection that nobody has said hello on: nodes open one.
  static constexpr std::size_t kMaxLines = 4;
  // What may have come without an explanation: a handshake, a call, and what HTTP/2 lets a caller send before
  // the call is heard. Where there is a line, the largest message besides.
  static constexpr std::uint64_t kUnexplainedBytes = std::uint64_t{16} << 10U;
  static constexpr std::uint64_t kBytesPerSecond = std::uint64_t{16} << 10U;
  static constexpr std::uint64_t kBytesPerMessage = 64;
  static constexpr std::uint64_t kBytesPerCall = 512;
  // A stranger younger than this may be about to be known: it goes for others' sake, or where it keeps the
  // server waiting; else not for the next of its own address.
  static constexpr std::chrono::seconds kYouth{3};

  // `message_bytes`: the largest message that the server takes over a line, or beside one.
  explicit Visitors(std::uint64_t message_bytes) : message_bytes_(message_bytes) {}

  // A new connection, which has said nothing. Returns the one that has to go for it. Precondition: `key` is
  // nobody's.
  std::optional<Key> come(Key key, std::string peer, Time now);
  // It has said enough for an answer. Returns the one that has to go for it, which may be itself.
  // `is_waited_for`: the server has answered that connection, which has not gone on since.
  std::optional<Key> speak(Key key, Time now, const std::function<bool(Key)>& is_waited_for);
  // A call that is let in has come from there, HOST:PORT, by the one whom its certificate names; empty where
  // there is none. False where that one has too many connections: then it stays a stranger's.
  bool know(std::string_view peer, const std::string& caller);
  // A line begins there, of one whose certificate is believed. False where it has begun too many.
  bool begin_line(std::string_view peer);
  // A whole message has come from there, beside what know() explains.
  void hear(std::string_view peer, std::uint64_t bytes);
  void leave(Key key);

  // Whether it has received more than is explained. `received`: all bytes so far.
  bool exceeds(Key key, std::uint64_t received, Time now);
  // Those that are silent or strangers' for kStrangerTime; when the next one will be.
  [[nodiscard]] std::vector<Key> late(Time now) const;
  [[nodiscard]] std::optional<Time> next_late() const;
  // Of those that are not known the one to go first, where descriptors are short.
  [[nodiscard]] std::optional<Key> most_dispensable() const;

  [[nodiscard]] std::optional<Key> find_key(std::string_view peer) const;
  [[nodiscard]] bool is_silent(Key key) const;
  [[nodiscard]] bool is_known(Key key) const;
  [[nodiscard]] const std::string& peer(Key key) const { return visitors_.at(key).peer; }
  [[nodiscard]] std::size_t strangers() const;

 private:
  // Connections by address, oldest first.
  using Room = std::map<std::string, std::set<std::uint64_t>>;
  enum class Place : std::uint8_t { kSilent, kSilentOfKnown, kStrangers, kStrangersOfKnown, kKnown };
  static constexpr std::size_t kRooms = 4;

  struct Visitor {
    std::string peer;
    std::string home;
    std::uint64_t number = 0;  // in the order of coming
    Time since;
    Place place = Place::kSilent;
    bool has_line = false;
    std::size_t lines = 0;  // begun since one was known
    std::string caller{};
    std::uint64_t explained = 0;  // bytes
    Time inspected;
  };

  static bool is_silent(Place place) { return place <= Place::kSilentOfKnown; }
  [[nodiscard]] Visitor* find(std::string_view peer);
  bool enter(Visitor& visitor, Place place);
  [[nodiscard]] const Room& room_of(const Visitor& visitor) const {
    return rooms_[static_cast<std::size_t>(visitor.place)];
  }
  void leave_room(const Visitor& visitor);
  [[nodiscard]] static const std::set<std::uint64_t>* most_crowded(const Room& room);
  void remember(const std::string& home);

  const std::uint64_t message_bytes_;
  std::unordered_map<Key, Visitor> visitors_;
  std::unordered_map<std::string, Key> by_peer_;
  std::map<std::uint64_t, Key> waiting_;  // not known, by number
  std::array<Room, kRooms> rooms_;
  std::array<std::size_t, kRooms> sizes_{};
  std::unordered_map<std::string, std::size_t> of_caller_;
  std::map<std::string, std::uint64_t> known_homes_;  // when they were known last, by count
  std::uint64_t last_number_ = 0;
  std::uint64_t last_known_ = 0;
};

}  // namespace square::controller
