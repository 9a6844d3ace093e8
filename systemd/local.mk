# Units, sysusers, tmpfiles. configure --with-systemdsystemunitdir=no installs none of them.
EXTRA_DIST += %reldir%/wqd.service.in %reldir%/wqd.socket %reldir%/sysusers.d/wqd.conf \
	%reldir%/tmpfiles.d/wqd.conf
CLEANFILES += %reldir%/wqd.service

%reldir%/wqd.service: %reldir%/wqd.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) %reldir% && \
		sed 's|@sbindir[@]|$(sbindir)|' $(srcdir)/%reldir%/wqd.service.in >$@.tmp && mv $@.tmp $@

if SYSTEMD_UNITS
unitdir = $(systemdsystemunitdir)
unit_DATA = %reldir%/wqd.service %reldir%/wqd.socket
sysusersdir = $(prefix)/lib/sysusers.d
sysusers_DATA = %reldir%/sysusers.d/wqd.conf
tmpfilesdir = $(prefix)/lib/tmpfiles.d
tmpfiles_DATA = %reldir%/tmpfiles.d/wqd.conf
else
noinst_DATA = %reldir%/wqd.service
endif
