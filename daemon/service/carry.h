/*
 * Sessions over an exec: who they are, what of their requests is under way, and
 * bytes that have not been sent. Names of roles, and what these allow, are looked
 * up again, as after a reload. Loop thread only.
 */
#ifndef WQD_SERVICE_CARRY_H
#define WQD_SERVICE_CARRY_H

#include "base/carry.h"
#include "service/session.h"

/* No reply waits for a commit, no copy or check goes on: only then may sessions be carried. */
bool
service_settled(const struct service *svc);
/* What is of all sessions; after them. */
void
service_carry_out(const struct service *svc, struct carry_out *o);
void
session_carry_out(const struct session *s, struct carry_out *o);
/* One record of a session that was made anew for its connection: CARRY_SESSION first. 0 or a negative
 * error. */
int
session_carry_in(struct session *s, const struct carry_record *r, struct moment now);
/* One record that is of no session. */
int
service_carry_in(struct service *svc, const struct carry_record *r);

#endif
