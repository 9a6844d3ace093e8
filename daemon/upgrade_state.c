#include "upgrade_state.h"

#include "base/assert.h"

#define TO(state) (1u << (state))

static const struct {
	const char *name;
	int64_t most_ns;
} states[N_UPGRADE_STATES] = {
#define X(state, text, most) [state] = { .name = text, .most_ns = most },
	UPGRADE_STATE_TABLE(X)
#undef X
};

static const unsigned leads[N_UPGRADE_STATES] = {
	[UP_IDLE] = TO(UP_CHECKING),
	[UP_CHECKING] = TO(UP_IDLE) | TO(UP_SETTLING),
	[UP_SETTLING] = TO(UP_IDLE) | TO(UP_PARTING),
	[UP_PARTING] = TO(UP_IDLE) | TO(UP_SAVING),
	[UP_SAVING] = TO(UP_IDLE) | TO(UP_HANDING),
	[UP_HANDING] = TO(UP_IDLE),
};

const char *
upgrade_state_name(enum upgrade_state s)
{
	return states[s].name;
}

int64_t
upgrade_state_most(enum upgrade_state s)
{
	return states[s].most_ns;
}

bool
upgrade_leads(enum upgrade_state from, enum upgrade_state to)
{
	return leads[from] & TO(to);
}

enum upgrade_state
upgrade_next(enum upgrade_state s, const struct upgrade_seen *seen)
{
	if (s == UP_IDLE)
		return s;
	if (seen->failed || seen->stopping)
		return UP_IDLE;
	switch (s) {
	case UP_CHECKING:
		if (seen->child_over)
			return seen->only_check ? UP_IDLE : UP_SETTLING;
		break;
	case UP_SETTLING:
		if (seen->at_rest)
			return UP_PARTING;
		break;
	case UP_PARTING:
		if (seen->at_rest && !seen->tls_left)
			return UP_SAVING;
		break;
	case UP_SAVING:
		return seen->done ? UP_HANDING : UP_IDLE;
	case UP_HANDING:
		return UP_IDLE;
	case UP_IDLE:
	case N_UPGRADE_STATES:
		break;
	}
	return seen->over ? UP_IDLE : s;
}
