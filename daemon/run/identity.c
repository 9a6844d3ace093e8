#include "run/identity.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

#define LOOKUP_MIN 1024u
#define LOOKUP_MAX (1u << 20) /* a group with tens of thousands of members */
#define GROUPS_MIN 32
#define GROUPS_MAX 65536

struct known {
	struct identity who;
	char *user, *group; /* what was asked for, NULL as given */
	int64_t until_ns;
	struct list link;
};

static void
known_free(struct known *k)
{
	x_free(k->who.groups);
	x_free(k->who.name);
	x_free(k->who.home);
	x_free(k->user);
	x_free(k->group);
	x_free(k);
}

void
identities_init(struct identities *ids)
{
	list_init(&ids->all);
}

void
identities_done(struct identities *ids)
{
	list_each_safe(k, &ids->all, struct known, link) {
		list_del(&k->link);
		known_free(k);
	}
}

/* ---- the user database ---- */

/* The number that is all ones means "leave it" to the kernel. */
static bool
id_number(const char *s, uint64_t *v)
{
	return text_u64(str_from(s), v) == 0 && *v < UINT32_MAX;
}

/* The database's functions want room for the texts and don't say how much. */
static bool
grow_room(char **room, size_t *size)
{
	char *p;

	if (*room && *size >= LOOKUP_MAX)
		return false;
	*size = *room ? *size * 4 : LOOKUP_MIN;
	p = x_realloc(*room, *size, 1);
	if (!p)
		return false;
	*room = p;
	return true;
}

/* Several of its errors mean "not there"; see getpwnam(3). */
static int
lookup_error(int err)
{
	return err == 0 || err == ENOENT || err == ESRCH || err == EBADF || err == EPERM ? -ESRCH
											 : -err;
}

/* By name, or by number when `name` is NULL. `room` holds what `pw` points to. */
static int
find_user(const char *name, uid_t uid, struct passwd *pw, char **room)
{
	struct passwd *hit = NULL;
	size_t size = 0;
	int err = ERANGE;

	while (err == ERANGE) {
		if (!grow_room(room, &size))
			return -ENOMEM;
		err = name ? getpwnam_r(name, pw, *room, size, &hit)
			   : getpwuid_r(uid, pw, *room, size, &hit);
	}
	return hit ? 0 : lookup_error(err);
}

static int
find_group(const char *name, gid_t *gid)
{
	struct group gr, *hit = NULL;
	char *room = NULL;
	size_t size = 0;
	uint64_t number;
	int err = ERANGE;

	while (err == ERANGE) {
		if (!grow_room(&room, &size)) {
			x_free(room);
			return -ENOMEM;
		}
		err = getgrnam_r(name, &gr, room, size, &hit);
	}
	x_free(room);
	if (hit)
		*gid = gr.gr_gid;
	else if (id_number(name, &number))
		*gid = (gid_t)number;
	else
		return lookup_error(err);
	return 0;
}

static int
find_groups(const char *user, gid_t gid, struct identity *who)
{
	int n = GROUPS_MIN, room = 0;
	gid_t *v;

	do {
		room = n > room ? n : room * 2;
		if (room > GROUPS_MAX)
			return -E2BIG;
		v = x_realloc(who->groups, (size_t)room, sizeof *v);
		if (!v)
			return -ENOMEM;
		who->groups = v;
		n = room;
	} while (getgrouplist(user, gid, v, &n) < 0);
	who->n_groups = (size_t)n;
	return 0;
}

/* ---- putting one together ---- */

static char *
copy(const char *s)
{
	return x_strndup(s, strlen(s));
}

static int
set_names(struct identity *who, const char *name, const char *home)
{
	who->name = copy(name);
	who->home = copy(home && *home ? home : "/");
	return who->name && who->home ? 0 : -ENOMEM;
}

/* The daemon's own user need not be in the database. */
static int
fill_own(struct identity *who)
{
	struct passwd pw;
	char *room = NULL, number[16];
	int err;

	who->uid = geteuid();
	who->gid = getegid();
	err = find_user(NULL, who->uid, &pw, &room);
	if (err == 0) {
		err = set_names(who, pw.pw_name, pw.pw_dir);
	} else if (err == -ESRCH) {
		snprintf(number, sizeof number, "%u", (unsigned)who->uid);
		err = set_names(who, number, NULL);
	}
	x_free(room);
	return err;
}

static int
fill_user(struct identity *who, const char *user)
{
	struct passwd pw;
	char *room = NULL;
	uint64_t number;
	int err = find_user(user, 0, &pw, &room);

	if (err == -ESRCH && id_number(user, &number)) {
		x_free(room);
		room = NULL;
		err = find_user(NULL, (uid_t)number, &pw, &room);
	}
	if (err == 0) {
		who->uid = pw.pw_uid;
		who->gid = pw.pw_gid;
		who->set_groups = true;
		err = set_names(who, pw.pw_name, pw.pw_dir);
	}
	x_free(room);
	return err;
}

static int
fill(struct identity *who, const char *user, const char *group)
{
	int err = user ? fill_user(who, user) : fill_own(who);

	if (err == 0 && group)
		err = find_group(group, &who->gid);
	if (err)
		return err;
	/* A daemon that is not root may still name itself. */
	who->change = who->uid != geteuid() || who->gid != getegid();
	return who->change && who->set_groups ? find_groups(who->name, who->gid, who) : 0;
}

/* ---- what is known ---- */

static bool
same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct known *
known_find(struct identities *ids, const char *user, const char *group, int64_t now_ns)
{
	struct known *hit = NULL;

	list_each_safe(k, &ids->all, struct known, link) {
		if (k->until_ns <= now_ns) {
			list_del(&k->link);
			known_free(k);
		} else if (same(k->user, user) && same(k->group, group)) {
			hit = k;
		}
	}
	return hit;
}

static int
known_new(const char *user, const char *group, struct known **out)
{
	struct known *k = x_zalloc(sizeof *k);
	int err = 0;

	if (!k)
		return -ENOMEM;
	list_init(&k->link);
	k->user = user ? copy(user) : NULL;
	k->group = group ? copy(group) : NULL;
	if ((user && !k->user) || (group && !k->group))
		err = -ENOMEM;
	if (err == 0)
		err = fill(&k->who, user, group);
	if (err) {
		known_free(k);
		return err;
	}
	*out = k;
	return 0;
}

int
identity_get(struct identities *ids, const char *user, const char *group, int64_t now_ns,
	const struct identity **out)
{
	struct known *k = known_find(ids, user, group, now_ns);

	if (!k) {
		int err = known_new(user, group, &k);

		if (err)
			return err;
		k->until_ns = sat_add(now_ns, IDENTITY_KEEP_NS);
		list_append(&ids->all, &k->link);
	}
	*out = &k->who;
	return 0;
}
