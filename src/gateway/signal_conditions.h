// Levels from conditions; the conditions themselves and the choice of a route are signals.h's Holds and ChooseRoute.
//
// An error never opens a route of lower control: a condition that can not be evaluated (an unknown subject, a number
// asked of what has none, a label asked of a signal that abstained) does not hold, and the last route always does.
// A level can only rise by rules, so there what is not known must not pass for low: where a rule reads a signal that
// abstained, the level is at least medium, unless a rule of the level names "abstained" for that signal itself.
// Threads: any.
#pragma once

#include "base/status.h"
#include "gateway/signals.h"

namespace surety::gateway {

Level LevelFor(const LevelSpec& spec, const RoutingFacts& facts);
// kInvalidArgument unless all subjects are signals, their groups, or "risk" in a rule of complexity: nothing else is
// known when levels are.
Status CheckLevelSubjects(const Policy& policy, const LevelSpec& spec, const std::string& level);

}  // namespace surety::gateway
