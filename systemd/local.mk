# Units, sysusers, tmpfiles.
