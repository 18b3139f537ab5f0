#include "world/once.h"

#include <fmt/format.h>

#include "node/overlay.h"

namespace square::test {

void Once::note_group(const GroupSpec& group, const GroupRegistration& made) {
  const auto [known, is_new] = groups_.emplace(made.number, group.name);
  if (!is_new && known->second != group.name)
    complain_(fmt::format("group number {} was given to {} and {}", made.number, known->second, group.name));
  const auto [key, is_first_key] = keys_.emplace(made.number, made.wrapped_keys);
  if (!is_first_key && key->second != made.wrapped_keys)
    complain_(fmt::format("members of group {} have different keys", group.name));
  for (std::size_t i = 0; i < made.collectives.size(); ++i) {
    const std::string what = fmt::format("{} of {}", i, group_label(group.name, made.number));
    const auto [collective, is_first] = collectives_.emplace(made.collectives[i].value(), what);
    if (!is_first && collective->second != what)
      complain_(fmt::format("number {} was given to {} and {}", made.collectives[i].value(),
                            collective->second, what));
  }
}

void Once::note_plan(const Plan& plan) {
  const std::size_t digest = std::hash<std::string>()(to_json(plan));
  const std::uint64_t origin = plan.origin.store * 31 + plan.origin.term;
  const auto [known, is_new] = plans_.emplace(std::pair(origin, plan.epoch.value()), digest);
  if (!is_new && known->second != digest)
    complain_(fmt::format("epoch {} was given twice", plan.epoch.value()));
}

void Once::note_part(const ControllerProcess& from, const v1::PlanPart& part) {
  const auto [process, is_first] = processes_.emplace(std::pair(part.store(), part.term()), from.process());
  if (!is_first && process->second != from.process())
    complain_(fmt::format("{} and {} publish in term {}", process->second, from.process(), part.term()));
  const auto [term, is_new] = terms_.emplace(std::pair(part.store(), part.epoch()), part.term());
  if (!is_new && term->second != part.term())
    complain_(
        fmt::format("epoch {} was given in term {} and in term {}", part.epoch(), term->second, part.term()));
}

void Once::note_regrouping(std::uint64_t number, const GroupSpec& next) {
  std::string what = fmt::format("{} of", group_label(next.name, next.number));
  for (const Rank rank : next.origin.ranks) what += fmt::format(" {}", rank.value());
  for (const std::uint64_t joiner : next.origin.joiners) what += fmt::format(" {}", joiner);
  const auto [known, is_new] = regroupings_.emplace(number, what);
  if (!is_new && known->second != what)
    complain_(fmt::format("group {} goes on as {} and as {}", number, known->second, what));
}

}  // namespace square::test
